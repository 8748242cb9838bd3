"""Hyperparameters, problems and models, made from their names."""

import functools
import json
import random
import re
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any

from ut_tf import registry
from ut_tf.config.hparams import HParams, converted
from ut_tf.config.training import TrainingConfig
from ut_tf.data.arguments import (
    convert_arguments,
    hyperparameter_arguments,
    name_problem_args,
    parameters_of,
)
from ut_tf.data.earlier_data import data_of_0_4
from ut_tf.data.problem import Problem
from ut_tf.errors import UserError
from ut_tf.models.bounded import bounded_variables, check_layers
from ut_tf.models.training_contract import TrainableModel
from ut_tf.problem_spec import ProblemSpec


def make_hparams(hparams_set: str, overrides: str = "", model: str | None = None) -> HParams:
    """The named set with its overrides and perhaps another model, resolved.

    Raises:
      UserError: an unknown name, or every hyperparameter that cannot be.
    """
    return hparams_of(hparams_set, overrides, model)[0]


def hparams_of(hparams_set: str, overrides: str, model: str | None) -> tuple[HParams, list[str]]:
    """As ``make_hparams``, with "name=value" for what the set says and the model does not have."""
    hparams = registry.hparams_sets.get(hparams_set)()
    dropped: list[str] = []
    if not isinstance(hparams, HParams):
        raise UserError(
            f"hyperparameter set {hparams_set!r} returned {type(hparams).__name__}: its function"
            " must return HParams."
        )
    if model:
        hparams, dropped = converted(hparams, model)
    return hparams.override(overrides).resolve(), dropped


def make_problem(
    name: str,
    arguments: dict[str, Any],
    training: TrainingConfig | None = None,
    data_version: int | None = None,
) -> Problem:
    """The named problem, made with its arguments.

    The hyperparameters of its data, such as vocab_size, are arguments too where `arguments` do not
    give them; and in data of version 1 ``Problem.earlier_arguments``.

    Args:
      name: registered.
      arguments: by name.
      training: the hyperparameters; None: those of the data do not count.
      data_version: of a run; None: the newest.

    Raises:
      UserError: the name or an argument is unknown, or a value is of the wrong type.
    """
    factory = registry.problems.get(name)
    by_hparams = {} if training is None else hyperparameter_arguments(name, factory, training)
    own_names = {*arguments, *(parameters_of(factory) - by_hparams.keys())}
    every = {**by_hparams, **_earlier_arguments(factory, data_version), **arguments}
    earlier = data_of_0_4() if data_version == 1 else nullcontext()
    with name_problem_args(own_names), earlier:
        problem: Problem = factory(**convert_arguments(name, factory, every))
    return problem


def _earlier_arguments(factory: Callable[..., Any], data_version: int | None) -> Mapping[str, Any]:
    made = factory.func if isinstance(factory, functools.partial) else factory
    earlier: Mapping[str, Any] = getattr(made, "earlier_arguments", {})
    # A class of one's own may lack some: those that it derives from have them then.
    known = parameters_of(factory) if data_version == 1 else ()
    return {name: value for name, value in earlier.items() if name in known}


def make_model(
    hparams: HParams, spec: ProblemSpec, seed: int, most_parameters: int | None = None
) -> Any:
    """A newly initialised keras.Model, a ``TrainableModel``; all that it draws follows from the
    seed.

    Args:
      hparams, spec, seed: of the run.
      most_parameters: numbers that its weights may have; None: any. The first variable beyond them
        is not made, so that no hyperparameter of a stranger's fills the memory.

    Raises:
      UserError: what is registered under the model's name makes something else, the model cannot
        be made for the spec, or it is too large.
    """
    factory = registry.models.get(hparams.model)
    import keras

    before, state = keras.config.dtype_policy(), random.getstate()
    keras.config.set_dtype_policy(hparams.training.dtype_policy)
    # Keras draws the seeds of initializers and of random layers from here.
    random.seed(seed)
    try:
        if most_parameters is not None:
            check_layers(dict(vars(hparams.network)), most_parameters)
        with bounded_variables(most_parameters):
            model = factory(hparams.network, spec)
    finally:
        random.setstate(state)
        keras.config.set_dtype_policy(before)
    _check_trainable(hparams.model, model)
    return model


def _check_trainable(name: str, model: Any) -> None:
    import keras

    made = f"the model {name!r} makes a {type(model).__module__}.{type(model).__qualname__}"
    built = isinstance(model, keras.Model) and model.built
    if not (isinstance(model, keras.Model) and isinstance(model, TrainableModel)):
        raise UserError(
            f"{made}, and training expects a keras.Model that inherits from TrainableModel"
            " (ut_tf.models.training_contract): derive its class from both, or from"
            " ut_tf.models.encoder_decoder.EncoderDecoder."
        )
    if not built:
        raise UserError(
            f"{made} without weights, and training expects a model that is built when its"
            " constructor returns: call it there once, on features of zeros."
        )


def parse_problem_args(
    text: str | dict[str, Any], argument: str = "problem_args"
) -> dict[str, Any]:
    """Parses "name=value,name=value".

    Values are numbers, true, false and null as in JSON, lists of whole numbers, 1+2+3, and texts.
    A tuple in a dictionary becomes a list, as it comes back from config.json.

    Args:
      text: the assignments, or the dictionary that they stand for.
      argument: its name, for messages.

    Raises:
      UserError: a part is no assignment, or a name is set twice.
    """
    if not isinstance(text, str):
        return {
            name: list(value) if isinstance(value, tuple) else value for name, value in text.items()
        }
    values: dict[str, Any] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not name:
            raise UserError(
                f"`{argument}`: {part!r} is not an assignment: expected name=value,name=value."
            )
        if name in values:
            raise UserError(f"`{argument}`: {name!r} is set twice: leave one of the two out.")
        values[name] = _literal(value)
    return values


def _literal(text: str) -> Any:
    try:
        if re.fullmatch(r"\d+(\+\d+)+", text):
            return [int(number) for number in text.split("+")]
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return text if isinstance(value, list | dict) else value
