"""Makes the parts of models from configurations.

``make_part`` is the one convention: a part's constructor names the fields of the configuration that
it needs, and gets their values. A part that a field chooses (``make_chosen``) also gets the options
that it declares. A part of your own follows it without further ado::

    @registry.register_cell("damped")
    class DampedCell(BasicCell):
        options = {"damping": option(0.5, "share of the state that stays", at_least=0, at_most=1)}

        def __init__(self, norm_epsilon: float, damping: float, **kwargs: Any) -> None:
            super().__init__(**kwargs)  # norm_epsilon is a field, damping an option
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import keras

from ut_tf import registry
from ut_tf.config.base import Config, filled_in
from ut_tf.config.part_options import own_options, parameters
from ut_tf.errors import UserError
from ut_tf.layers.attention import MultiHeadAttention
from ut_tf.layers.block import Block
from ut_tf.layers.block_cached import WITH_FINAL_NORM
from ut_tf.layers.normalization import make_norm
from ut_tf.layers.position_encodings import PositionEncoding
from ut_tf.layers.position_mixing import PositionMixing
from ut_tf.layers.stack import LayerStack
from ut_tf.layers.transition import StepTransitions
from ut_tf.loading import place
from ut_tf.models.part_contracts import checked_part
from ut_tf.registry import Registry


def make_part(factory: Callable[..., Any], config: Any, **offered: Any) -> Any:
    """Calls `factory` with arguments by the names of its parameters: from `offered` first, then
    from the configuration.

    Args:
      factory: a class or function. A class' own ``**kwargs`` stand for the parameters of its base
        classes; a Keras layer also takes name and dtype.
      config: a dataclass.
      offered: values that the configuration does not hold. A value that no parameter names is left
        out.
    """
    names = parameters(factory)
    fields = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
    if isinstance(config, Config):
        fields |= filled_in(config)
    values = {name: value for name, value in fields.items() if name in names}
    dtype = offered.get("dtype")
    if isinstance(dtype, keras.DTypePolicy):
        # Keras writes the configuration of a layer by itself where all arguments are plain.
        offered["dtype"] = dtype.name
    return factory(
        **{**values, **{name: value for name, value in offered.items() if name in names}}
    )


def make_chosen(kind: Registry, config: Any, field: str, **offered: Any) -> Any:
    """The part that a field of the configuration chooses, made with its options.

    Args:
      kind: the registry of the field's names.
      config: a dataclass.
      field: its name; options of the part are called FIELD.OPTION.
      offered: as of ``make_part``.
    """
    name = getattr(config, field)
    factory, given = kind.get(name), {**offered, **own_options(config, field)}
    if not kind.is_own(name):
        return make_part(factory, config, **given)
    what = f"{kind.kind} {name!r} ({place(factory)})"
    try:
        part = make_part(factory, config, **given)
    except TypeError as error:
        if _is_within(error):
            raise
        raise UserError(
            f"{what}: {error}; no hyperparameter has that name: declare it in `options`, or give it"
            " a default."
        ) from error
    return checked_part(what, kind.kind, part)


def _is_within(error: BaseException) -> bool:
    """Whether an error of ``make_part`` was raised by the code that it calls."""
    called = error.__traceback__ and error.__traceback__.tb_next
    return called is not None and called.tb_next is not None


def make_position_encoding(config: Any) -> PositionEncoding:
    """The position encoding that the configuration names."""
    encoding: PositionEncoding = make_chosen(registry.positions, config, "position")
    return encoding


def make_final_norm(config: Any, dtype: Any) -> Any:
    """Returns the norm that follows blocks whose sums have none, or that follows a recurrence as
    well; None where there is neither.
    """
    shared = getattr(config, "norm_after_recurrence", False) and config.mix_layers_after
    wanted = config.norm in WITH_FINAL_NORM or shared
    return make_named_norm(config, "final_norm", dtype) if wanted else None


def make_named_norm(config: Any, name: str, dtype: Any) -> Any:
    """Returns a norm of the configuration's type."""
    return make_norm(config.norm_type, config.norm_epsilon, name=name, dtype=dtype)


def make_transition(config: Any, **offered: Any) -> Any:
    """The transition function that the configuration names."""
    return make_chosen(registry.transitions, config, "transition", **offered)


def make_block(
    config: Any,
    causal: bool = False,
    with_memory: bool = False,
    with_transition: bool = True,
    with_self_attention: bool = True,
    step_transitions: int = 0,
    name: str = "block",
    dtype: Any = None,
) -> Block:
    """A block.

    Args:
      config: its BlockConfig is used.
      causal: whether transitions see only earlier positions (attention is hidden by the context's
        bias).
      with_memory: whether there is attention over an encoder's states.
      with_transition: whether the transition follows.
      with_self_attention: whether positions attend to each other.
      step_transitions: how many transitions there are, one for each recurrent step; 0: one for all
        steps.
      name, dtype: of the block.
    """
    self_attention = memory_attention = transition = None
    if with_self_attention and getattr(config, "attention", True):
        mixes = getattr(config, "mix_positions", 0)
        kind = PositionMixing if mixes else MultiHeadAttention
        self_attention = make_part(kind, config, name="self_attention", dtype=dtype)
    if with_memory:
        options = {"relative_bias": 0, "name": "memory_attention", "dtype": dtype}
        memory_attention = make_part(MultiHeadAttention, config, **options)
    if with_transition and step_transitions:
        transitions = [
            make_transition(config, causal=causal, name=f"transition_{number}", dtype=dtype)
            for number in range(step_transitions)
        ]
        transition = StepTransitions(transitions, name="transition", dtype=dtype)
    elif with_transition:
        transition = make_transition(config, causal=causal, name="transition", dtype=dtype)
    block: Block = make_part(
        Block,
        config,
        self_attention=self_attention,
        memory_attention=memory_attention,
        transition=transition,
        name=name,
        dtype=dtype,
    )
    return block


def make_layer_stack(
    config: Any,
    count: int,
    causal: bool = False,
    with_memory: bool = False,
    with_final_norm: bool = True,
    name: str = "stack",
    dtype: Any = None,
) -> LayerStack:
    """Returns `count` blocks on top of each other, pre-norm with one more norm behind them."""
    blocks = [
        make_block(config, causal, with_memory, name=f"block_{number}", dtype=dtype)
        for number in range(count)
    ]
    final_norm = make_final_norm(config, dtype) if with_final_norm else None
    return LayerStack(blocks, final_norm, name=name, dtype=dtype)
