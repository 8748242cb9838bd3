"""Typed hyperparameters: a network's (network.py) and its training's, and how both are written,
read and overridden.

How it is used::

    hparams = HParams(network=NetworkConfig(hidden_size=128, num_heads=4),
        training=TrainingConfig(batch_size=2048))
    # every mistake in the text is listed at once
    hparams = hparams.override("hidden_size=256,dropout=0.2")
    hparams = hparams.resolve()  # values that follow from others are filled in
    text = hparams.to_json(); hparams == HParams.from_json(text)

How it works: frozen dataclasses; variants are made with ``dataclasses.replace`` or ``override``. A
field that is None follows from other fields and is filled in by ``resolve``, the only place where
one value is computed from another.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from ut_tf.config.checks import mistakes_in
from ut_tf.config.network import BEFORE_0_5, NetworkConfig
from ut_tf.config.overrides import coerce, parse_assignments
from ut_tf.config.training import TrainingConfig
from ut_tf.config.unused import without_effect
from ut_tf.errors import UserError, near_names


@dataclass(frozen=True)
class HParams:
    """A named model with its network's and its training's hyperparameters."""

    model: str = "universal_transformer"
    network: NetworkConfig = field(default_factory=NetworkConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)

    def override(self, text: str) -> Self:
        """Returns a copy with the fields named in `text`, "name=value,name=value", set by their
        types.

        Raises:
          UserError: lists every unknown name and every value that its field cannot hold.
        """
        values, mistakes = parse_assignments(text)
        return self._with(values, mistakes, parse=True)

    def override_in_use(self, text: str) -> Self:
        """Returns a resolved copy with fields of the network that a trained model may be used with
        another value of: eval_num_steps, ….

        Raises:
          UserError: a field that training settled or that has no effect here, and what ``override``
            and ``resolve`` raise.
        """
        changed = self.override(text)
        allowed = {
            item.name for item in dataclasses.fields(self.network) if item.name.startswith("eval_")
        } | {"ponder_threshold"}
        if settled := [name for name in parse_assignments(text)[0] if name not in allowed]:
            raise UserError(
                f"hyperparameters: {', '.join(settled)} cannot change after training: expected some"
                f" of {', '.join(sorted(allowed))}; give others to ut-trainer."
            )
        if idle := changed.without_effect(text):
            raise UserError(
                f"hyperparameters: {'; '.join(idle)}: leave {'it' if len(idle) == 1 else 'them'}"
                " out."
            )
        return changed.resolve()

    def change(self, **values: Any) -> Self:
        """Returns a copy with the given fields set, wherever among network and training
        they stand.
        """
        return self._with(values, [], parse=False)

    def resolve(self) -> Self:
        """Returns a copy whose every field has a value, after checking those that depend on each
        other.

        Raises:
          UserError: lists every field or pair of fields that cannot be.
        """
        network, training = self.network, self.training
        max_steps = (
            network.act_max_steps if network.act_max_steps is not None else 2 * network.num_steps
        )
        network = dataclasses.replace(
            network,
            eval_num_steps=(
                network.num_steps if network.eval_num_steps is None else network.eval_num_steps
            ),
            act_max_steps=max_steps,
            eval_act_max_steps=(
                max_steps if network.eval_act_max_steps is None else network.eval_act_max_steps
            ),
            embedding_stddev=(
                max(network.hidden_size, 1) ** -0.5
                if network.embedding_stddev is None
                else network.embedding_stddev
            ),
        )
        default_scale: Literal["none", "dynamic"] = (
            "dynamic" if training.dtype_policy == "mixed_float16" else "none"
        )
        training = dataclasses.replace(
            training,
            decay_steps=(
                training.train_steps if training.decay_steps is None else training.decay_steps
            ),
            loss_scale=default_scale if training.loss_scale is None else training.loss_scale,
        )
        resolved = dataclasses.replace(self, network=network, training=training)
        _raise_all(mistakes_in(self.model, network, training))
        return resolved

    def without_effect(self, overrides: str) -> list[str]:
        """Returns a text for each of the fields set in `overrides`, "name=value,…", that this model
        never reads with these values.
        """
        values = {**vars(self.network), **vars(self.training)}
        return without_effect(self.model, values, parse_assignments(overrides)[0])

    def to_dict(self) -> dict[str, Any]:
        """Returns nested plain dictionaries, ready for JSON."""
        return dataclasses.asdict(self)

    def to_json(self) -> str:
        """Returns indented JSON that ``from_json`` reads."""
        return json.dumps(self.to_dict(), indent=2)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """Returns the hyperparameters in nested dictionaries, as ``to_dict`` of this version or an
        earlier one wrote them.

        Raises:
          UserError: lists every unknown name and every value that its field cannot hold.
        """
        flat = {**BEFORE_0_5, **values.get("network", {}), **values.get("training", {})}
        return dataclasses.replace(
            cls()._with(flat, [], parse=False), model=str(values.get("model", cls.model))
        )

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Returns the hyperparameters written by ``to_json``."""
        return cls.from_dict(json.loads(text))

    def _with(self, values: dict[str, Any], mistakes: list[str], parse: bool) -> Self:
        known = _fields()
        changes: dict[str, dict[str, Any]] = {"network": {}, "training": {}}
        for name, value in values.items():
            if name not in known:
                mistakes.append(f"unknown hyperparameter {name!r}{_hint(name, known)}")
                continue
            section, annotation = known[name]
            try:
                changes[section][name] = coerce(value, annotation, parse)
            except ValueError as error:
                mistakes.append(f"{name}={value}: expected {error}")
        _raise_all(mistakes)
        return dataclasses.replace(
            self,
            network=dataclasses.replace(self.network, **changes["network"]),
            training=dataclasses.replace(self.training, **changes["training"]),
        )


@functools.cache
def _fields() -> Mapping[str, tuple[str, Any]]:
    """Returns the section and the type of every field, by its name."""
    sections = {"network": NetworkConfig, "training": TrainingConfig}
    return {
        name: (section, kind)
        for section, config in sections.items()
        for name, kind in typing.get_type_hints(config).items()
    }


def differences(
    old: HParams, new: HParams, ignored: frozenset[str] = frozenset({"train_steps"})
) -> list[str]:
    """Returns one text "name: old -> new" for each field in which two sets differ, but for the
    ignored ones.
    """
    found = [] if old.model == new.model else [f"model: {old.model} -> {new.model}"]
    for before, after in ((old.network, new.network), (old.training, new.training)):
        for item in dataclasses.fields(before):
            was, is_now = getattr(before, item.name), getattr(after, item.name)
            if was != is_now and item.name not in ignored:
                found.append(f"{item.name}: {was} -> {is_now}")
    return found


# What tensor2tensor calls some of the fields: its users type these first.
_TENSOR2TENSOR_NAMES = {
    "num_rec_steps": "num_steps",
    "num_hidden_layers": "num_steps, or num_layers of a model without recurrence",
    "recurrence_type": "recurrence (or halting, for act)",
    "num_inrecurrence_layers": "recurrence_layers",
    "mix_with_transformer": "mix_layers_before and mix_layers_after",
    "num_mixedin_layers": "mix_layers_before and mix_layers_after",
    "act_type": "halting",
    "transformer_ffn_type": "transition",
    "step_timing_signal_type": "step_encoding",
    "position_start_index": "position_offset",
    "layer_prepostprocess_dropout": "dropout",
    "learning_rate_constant": "learning_rate",
    "learning_rate_schedule": "schedule",
    "learning_rate_warmup_steps": "warmup_steps",
    "optimizer_adam_beta1": "adam_beta1",
    "optimizer_adam_beta2": "adam_beta2",
    "optimizer_adam_epsilon": "adam_epsilon",
    "clip_grad_norm": "clip_norm",
    "shared_embedding_and_softmax_weights": "shared_embedding",
}


def _hint(name: str, known: Iterable[str]) -> str:
    if name == "model":
        return " (it has a flag of its own: --model)"
    if name in _TENSOR2TENSOR_NAMES:
        return f" (here it is {_TENSOR2TENSOR_NAMES[name]})"
    near = near_names(name, known)
    return f" (did you mean {' or '.join(near)}?)" if near else ""


def _raise_all(mistakes: list[str]) -> None:
    if mistakes:
        raise UserError("hyperparameters: " + "; ".join(mistakes) + ".")
