"""The data of runs of version 0.4, whatever makes their problem.

::

    with data_of_0_4():
        problem = factory(**arguments)

Such runs have ``Problem.earlier_arguments`` in place of the constructors' defaults, also where a
class of one's own derives from a problem and does not pass those arguments on.
"""

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_is_earlier: ContextVar[bool] = ContextVar("is_earlier", default=False)


@contextmanager
def data_of_0_4() -> Iterator[None]:
    """Makes problems with the data of version 0.4 in the body of the ``with`` statement."""
    token = _is_earlier.set(True)
    try:
        yield
    finally:
        _is_earlier.reset(token)


def with_earlier_defaults(
    constructor: Callable[..., None], earlier: Mapping[str, Any]
) -> Callable[..., None]:
    """The constructor with other defaults, by name, for runs of version 0.4."""
    signature = inspect.signature(constructor)
    names = signature.parameters.keys() & earlier.keys()
    if not names:
        return constructor

    @functools.wraps(constructor)
    def construct(self: Any, *args: Any, **kwargs: Any) -> None:
        if _is_earlier.get():
            given = signature.bind_partial(self, *args, **kwargs).arguments.keys()
            kwargs.update({name: earlier[name] for name in names - given})
        constructor(self, *args, **kwargs)

    return construct
