"""Typed hyperparameters: a model's name with its network's and its training's, and how they are
written, read and overridden.

How it is used::

    hparams = HParams("transformer").change(hidden_size=256, batch_size=2048)
    hparams = hparams.override("num_layers=4,dropout=0.2")  # every mistake is listed at once
    hparams = hparams.resolve()  # values that follow from others are filled in
    text = hparams.to_json(); hparams == HParams.from_json(text)

Each model has a class of configuration of its own: ``HParams("transformer").network`` is a
``TransformerConfig``. A field that is None follows from other fields.
"""

import dataclasses
import json
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, Self

from ut_tf.config.base import (
    Changeable,
    Config,
    Values,
    changes_of,
    checked,
    former_values,
    stored_values,
)
from ut_tf.config.families import config_class, every_field, models_with
from ut_tf.config.fields import declaration, default_of, fields_of, without_effect
from ut_tf.config.overrides import parse_assignments
from ut_tf.config.part_options import choosing_fields, declared, every_option, values_of
from ut_tf.config.tensor2tensor import HINTS, REMOVED
from ut_tf.config.training import TrainingConfig
from ut_tf.errors import UserError, near_names


@dataclass(frozen=True)
class HParams(Changeable):
    """A named model with its network's and its training's hyperparameters.

    Args:
      model: registered name.
      network: configuration of the class that the model has; by default its defaults.
      training: how it is trained.

    Raises:
      UserError: the model is unknown, or the configuration is another model's.
    """

    model: str = "universal_transformer"
    network: Any = None
    training: TrainingConfig = field(default_factory=TrainingConfig)

    def __post_init__(self) -> None:
        expected = config_class(self.model)
        if self.network is None:
            object.__setattr__(self, "network", expected())
        elif not isinstance(self.network, expected):
            raise UserError(
                f"the model {self.model} is configured by a {expected.__name__}, not by a"
                f" {type(self.network).__name__}: give it one, or use ``converted`` for what both"
                " have."
            )

    def override_in_use(self, text: str) -> Self:
        """A resolved copy with other values of those fields of the network in which a trained model
        may differ: eval_num_steps, ….

        Raises:
          UserError: a field that training settled or that has no effect here, and what ``override``
            and ``resolve`` raise.
        """
        changed = self.override(text)
        allowed = _changeable_in_use(changed.network)
        if settled := [name for name in parse_assignments(text)[0] if name not in allowed]:
            raise UserError(
                f"hyperparameters: {', '.join(settled)} cannot change after training: expected some"
                f" of {', '.join(allowed)}; give others to ut-trainer."
            )
        if idle := changed.without_effect(text):
            raise UserError(
                f"hyperparameters: {'; '.join(idle)}: leave {'it' if len(idle) == 1 else 'them'}"
                " out."
            )
        return changed.resolve()

    def resolve(self) -> Self:
        """A copy whose every field has a value, in which the network goes with its training.

        Raises:
          UserError: lists every field of the network that does not go with the training.
        """
        network, training = self.network.resolved(), self.training.resolved()
        _raise_all(network.mistakes_with(training))
        return dataclasses.replace(self, network=network, training=training)

    def without_effect(self, overrides: str) -> list[str]:
        """A sentence for each of the fields set in `overrides`, "name=value,…", that is never read
        with these values.
        """
        sentences = []
        for name in parse_assignments(overrides)[0]:
            sentences += [
                without_effect(section, name) for section in (self.network, self.training)
            ]
        return [sentence for sentence in sentences if sentence is not None]

    def notes_on(self, overrides: str) -> list[str]:
        """A sentence for each thing that whoever wrote `overrides`, "name=value,…", may not expect
        of these values, resolved.
        """
        noted: list[str] = self.network.notes_on(parse_assignments(overrides)[0])
        return self.without_effect(overrides) + noted

    def to_dict(self) -> dict[str, Any]:
        """Nested plain dictionaries, ready for JSON."""
        sections = {"network": self.network.to_dict(), "training": self.training.to_dict()}
        return {"model": self.model, **sections}

    def to_json(self) -> str:
        """Indented JSON that ``from_json`` reads."""
        return json.dumps(self.to_dict(), indent=2)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """The hyperparameters that ``to_dict`` of this version or an earlier one wrote.

        Raises:
          UserError: lists every unknown name and every value that its field cannot hold.
        """
        made = cls(str(values.get("model", cls.model)))
        network, unknown = stored_values(type(made.network), values.get("network", {}))
        training, others = stored_values(TrainingConfig, values.get("training", {}))
        return made._with({**network, **training}, unknown + others, parse=False)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The hyperparameters written by ``to_json``."""
        return cls.from_dict(json.loads(text))

    def _with(self, values: Values, mistakes: list[str], parse: bool) -> Self:
        if not values and not mistakes:
            return self
        sections: dict[str, Config] = {"network": self.network, "training": self.training}
        known = {*fields_of(type(self.network)), *fields_of(TrainingConfig)}
        for name in values:
            field = name.partition(".")[0]
            if field not in known:
                mistakes.append(f"unknown hyperparameter {name!r}{self._hint(field)}")
        changes: dict[str, dict[str, Any]] = {}
        for section, config in sections.items():
            changes[section], wrong = changes_of(config, values, parse)
            mistakes += wrong
        if not mistakes:
            for section, config in sections.items():
                mistakes += checked(type(config), {**vars(config), **changes[section]})[1]
        _raise_all(mistakes)
        changed: dict[str, Any] = {
            section: dataclasses.replace(config, **changes[section])
            for section, config in sections.items()
        }
        return dataclasses.replace(self, **changed)

    def _hint(self, name: str) -> str:
        """A hint at what a name means that no field of this model has, such as a similar name; may
        be empty.
        """
        known = {*fields_of(type(self.network)), *fields_of(TrainingConfig)}
        if name == "model":
            return " (it is an argument of its own: `model`)"
        if name in HINTS:
            return f" (here it is {HINTS[name]})"
        if name in REMOVED:
            return f" (of tensor2tensor's it is not here: {REMOVED[name]})"
        if name in _DEPTHS and _DEPTHS[name] in known:
            return f" (the depth of the model {self.model} is {_DEPTHS[name]})"
        if models := models_with(name):
            return f" (the model {self.model} does not have it; {_listed(models)})"
        options = {option for option, *_ in every_option(type(self.network))}
        near = sorted(option for option in options if option.endswith(f".{name}"))
        near = near or near_names(name, known) or near_names(name, every_field())
        return f" (did you mean {' or '.join(near)}?)" if near else ""


# A depth in steps and one in layers: who means the one often types the other.
_DEPTHS = {"num_steps": "num_layers", "num_layers": "num_steps"}
_SHOWN_MODELS = 4
_COMMON_MODELS = ("transformer", "universal_transformer")


def _listed(models: list[str]) -> str:
    # The models that most people mean come first.
    models = sorted(models, key=lambda name: (name not in _COMMON_MODELS, name))
    if len(models) == 1:
        return f"{models[0]} does"
    if len(models) <= _SHOWN_MODELS:
        return f"{', '.join(models[:-1])} and {models[-1]} do"
    return f"{', '.join(models[:_SHOWN_MODELS])} and others do"


def converted(hparams: HParams, model: str) -> tuple[HParams, list[str]]:
    """The hyperparameters of another model, with what both have taken over.

    Args:
      hparams: of any model.
      model: registered name.

    Returns:
      The hyperparameters, and "name=value" for each number (or detail of a part) that is not the
      default and that the model has no field for.

    Raises:
      UserError: lists every choice that is not the default and that the model cannot make.
    """
    made, old = HParams(model), hparams.network
    known = fields_of(type(made.network))
    chosen = choosing_fields(type(made.network))
    options = old.part_options
    taken = {name: value for name, value in options.items() if name.partition(".")[0] in chosen}
    refused: list[str] = []
    dropped: list[str] = []
    for name, item in fields_of(type(old)).items():
        value = getattr(old, name)
        if name in known:
            taken[name] = value
            continue
        declared = declaration(item)
        if value not in (default_of(item), declared.formerly, *declared.asks_nothing):
            is_choice = isinstance(value, str | bool) and not declared.is_detail
            asks_for_a_part = declared.is_structure or (is_choice and declared.only_with is None)
            lost = refused if asks_for_a_part else dropped
            lost.append(f"{name}={value}")
    if refused:
        raise UserError(
            f"the model {model} has no {' and no '.join(refused)}, which hyperparameters of the"
            f" model {hparams.model} ask for: take a set that is made for {model}, or the model"
            f" {hparams.model}."
        )
    return dataclasses.replace(made, training=hparams.training).change(**taken), dropped


def going_on(
    hparams: HParams, stored: HParams, given: Collection[str], given_then: Collection[str]
) -> HParams:
    """The hyperparameters with which a stored run goes on.

    Fields that an earlier version did not know, or that have another default since, keep the values
    by which it worked.

    Args:
      hparams: asked for now, resolved.
      stored: of the run, resolved.
      given: names of the fields that are overridden now.
      given_then: names of those that were when the run began.
    """
    if stored.model != hparams.model:
        return hparams
    values = values_of(stored.network)
    absent = {
        name: values[name]
        for name, item in declared(stored.network).items()
        if declaration(item).absent is not None
    }
    former = former_values(stored.network, hparams.network)
    kept = absent | {name: value for name, value in former.items() if name not in given_then}
    return hparams.change(**{name: value for name, value in kept.items() if name not in given})


def differences(
    old: HParams, new: HParams, ignored: frozenset[str] = frozenset({"train_steps"})
) -> list[str]:
    """One text "name: old -> new" for each field in which two sets differ, except for the ignored
    ones; of two models, for the fields that both have.
    """
    changes = [] if old.model == new.model else [f"model: {old.model} -> {new.model}"]
    for before, after in ((old.network, new.network), (old.training, new.training)):
        now = values_of(after)
        changes += [
            f"{name}: {was} -> {now[name]}"
            for name, was in values_of(before).items()
            if name in now and name not in ignored and was != now[name]
        ]
    return changes


def _changeable_in_use(network: Config) -> list[str]:
    """The fields, and options of parts, with which a trained model may be used otherwise."""
    own = declared(network)
    changeable = {name for name, item in own.items() if declaration(item).in_use}
    return sorted(name for name in own if {name, name.partition(".")[0]} & changeable)


def _raise_all(mistakes: list[str]) -> None:
    if mistakes:
        raise UserError("hyperparameters: " + "; ".join(mistakes) + ".")
