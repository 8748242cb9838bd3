"""The sizes of a model's parts, from its configuration alone: parameters, operations and memory are
counted from them.

::

    sizes = Sizes.of("universal_transformer", network, spec)
    sizes.encoder.steps, sizes.decoder.layers

Known are Universal Transformers and Transformers made of the parts of ut_tf. Nothing here needs
TensorFlow.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ut_tf import registry
from ut_tf.errors import UserError
from ut_tf.problem_spec import ProblemSpec

TRANSFORMER = "transformer"
CONDITIONAL = "conditional_universal_transformer"
MODELS = ("universal_transformer", CONDITIONAL, TRANSFORMER)


@dataclass(frozen=True)
class Stack:
    """An encoder's or a decoder's blocks.

    Args:
      with_memory: whether each block attends over an encoder's states.
      layers: blocks with weights of their own that run once (all of a Transformer's; those around a
        recurrence).
      shared: blocks of one recurrent step; 0: there is no recurrence.
      steps: how often these run in training, at most.
      table_steps: for how many steps there are weights, of a part that has some for each step.
      causal: whether positions see earlier ones only.
    """

    with_memory: bool
    layers: int
    shared: int
    steps: int
    table_steps: int
    causal: bool


@dataclass(frozen=True)
class Sizes:
    """What a model is made of.

    Args:
      model: registered name.
      network: its configuration, resolved.
      spec: of the problem.
      encoder, decoder: None where there is none.
    """

    model: str
    network: Any
    spec: ProblemSpec
    encoder: Stack | None
    decoder: Stack | None

    @classmethod
    def of(cls, model: str, network: Any, spec: ProblemSpec) -> Sizes:
        """The sizes of a model.

        Raises:
          UserError: the model, or one of its parts, is none whose size is known here.
        """
        _check_known(model, network)
        has_encoder, has_decoder = spec.inputs != "none", spec.targets == "tokens"
        return cls(
            model,
            network,
            spec,
            _stack(model, network, False, causal=False) if has_encoder else None,
            _stack(model, network, has_encoder, causal=True) if has_decoder else None,
        )

    @property
    def stacks(self) -> list[Stack]:
        """The encoder and the decoder, those that there are."""
        return [stack for stack in (self.encoder, self.decoder) if stack is not None]

    @property
    def is_recurrent(self) -> bool:
        """Whether the model is a Universal Transformer."""
        return self.model != TRANSFORMER

    @property
    def halts(self) -> bool:
        """Whether depth is dynamic, so that ``Stack.steps`` is a bound."""
        return self.is_recurrent and self.network.halting != "none"

    @property
    def shares_table(self) -> bool:
        """Whether inputs and targets have one embedding."""
        spec = self.spec
        return bool(self.network.shared_embedding and spec.shared_vocab and spec.inputs == "tokens")


def _stack(model: str, network: Any, with_memory: bool, causal: bool) -> Stack:
    if model == TRANSFORMER:
        return Stack(with_memory, network.num_layers, 0, 0, 0, causal)
    dynamic = network.halting != "none"
    steps = network.act_max_steps if dynamic else network.num_steps
    used = network.eval_act_max_steps if dynamic else network.eval_num_steps
    around = network.mix_layers_before + network.mix_layers_after
    return Stack(with_memory, around, network.recurrence_layers, steps, max(steps, used), causal)


def _check_known(model: str, network: Any) -> None:
    if model not in MODELS or registry.models.is_own(model):
        raise UserError(
            f"`model`={model}: sizes are known of {', '.join(MODELS[:-1])} and {MODELS[-1]} alone;"
            " plan one of these, or train for some updates and look."
        )
    own = [
        f"{field}={getattr(network, field)}"
        for field, names in (
            ("transition", registry.transitions),
            ("position", registry.positions),
            ("recurrence", registry.cells),
            ("halting", registry.halting_forms),
        )
        if hasattr(network, field) and names.is_own(getattr(network, field))
    ]
    if own:
        raise UserError(
            f"{' and '.join(own)}: the sizes of a part of your own are not known; plan with a part"
            " of ut_tf in its place."
        )
    if getattr(network, "steps_per_position", 0):
        raise UserError(
            f"steps_per_position={network.steps_per_position} makes depth depend on each example's"
            " length: set it to 0 and num_steps to the mean depth to plan."
        )
