"""What a part of user code must take and return: signatures and static shapes are compared."""

import contextlib
import functools
import inspect
from collections.abc import Callable
from typing import Any

from ut_tf.errors import UserError

# A method, its arguments, what it returns, and the argument of which "{}" is the shape (of an exit
# rule without the channels).
_CONTRACTS = {
    "recurrence": ("call", "block_output, state, memory, inputs", "(state {}, memory)", 0),
    "exit rule": ("check", "step, states, carried, logits", "({}, what it carries)", 1),
    "halting form": ("probabilities", "before, after, counted, step", "{}", 2),
    "input injection": ("injected", "state, inputs, weights", "{}", 0),
    "transition": ("call", "x, keep, output_scale", "{}", 0),
}
_FURTHER = ("step", "training")  # Given by name to those that take them.


def checked_part(what: str, kind: str, part: Any) -> Any:
    """The part; UserError where its method takes or, when it is called, returns something else."""
    if kind not in _CONTRACTS or part is None:
        return part
    method, arguments, _, _ = _CONTRACTS[kind]
    own = getattr(part, method, None)
    if own is None:
        raise UserError(f"{what} lacks the method {method}({arguments}).")
    with contextlib.suppress(ValueError):  # Functions in C tell no signature.
        signature = inspect.signature(own)
        first, *others = arguments.split(", ")
        by_name = others if kind == "transition" else []
        further = {*_FURTHER} & {*signature.parameters} - {first, *others}
        named = dict.fromkeys([*by_name, *further])
        try:
            signature.bind(first, *(() if by_name else others), **named)
        except TypeError:
            takes = f"{method}{signature}; expected {method}({arguments})"
            raise UserError(f"{what} has {takes}.") from None
    owner = next((each for each in type(part).__mro__ if method in vars(each)), None)
    # A class may be copied and pickled, which a function of its instance would spoil.
    if owner and owner.__module__.partition(".")[0] != "ut_tf":
        function = vars(owner)[method]
        if inspect.isfunction(function) and not hasattr(function, "is_checked"):
            setattr(owner, method, _checked(what, kind, function))
    return part


def _checked(what: str, kind: str, function: Callable[..., Any]) -> Callable[..., Any]:
    method, arguments, returned, like = _CONTRACTS[kind]
    names = ["self", *arguments.split(", ")]

    @functools.wraps(function)
    def checked(*given: Any, **named: Any) -> Any:
        result = function(*given, **named)
        shape = _shape({**dict(zip(names, given, strict=False)), **named}.get(names[like + 1]))
        shape = shape[:-1] if shape and kind == "exit rule" else shape
        is_pair = isinstance(result, tuple | list) and len(result) == 2
        first, exact = result[0] if is_pair else result, kind not in ("exit rule", "halting form")
        if is_pair != returned.startswith("(") or not _fits(_shape(first), shape, exact):
            expected = returned.format(str(shape).replace("None", "?"))
            raise UserError(f"{what}: `{method}` returned {_told(result)}; expected {expected}.")
        return result

    checked.is_checked = True  # type: ignore[attr-defined]
    return checked


def _shape(value: Any) -> list[Any] | None:
    shape = getattr(value, "shape", None)
    return None if shape is None or getattr(shape, "rank", 0) is None else list(shape)


def _fits(shape: list[Any] | None, wanted: list[Any] | None, exact: bool) -> bool:
    if shape is None or wanted is None:
        return True
    if not exact:
        return len(shape) <= len(wanted)
    return len(shape) == len(wanted) and all(
        # One position would be spread over an unknown number of them.
        size in (None, other) or (other is None and size != 1)
        for size, other in zip(shape[1:], wanted[1:], strict=True)
    )


def _told(value: Any) -> str:
    if isinstance(value, tuple | list):
        return f"({', '.join(map(_told, value))})"
    shape = _shape(value)
    return type(value).__name__ if shape is None else str(shape).replace("None", "?")
