"""Cells, halting forms, transitions and positions of a user's own: registered by name, made from
the configuration's fields, used by the model and decoded like the built-in ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.close import assert_close
from tests.search.models import INPUTS, random_model
from ut_tf import registry
from ut_tf.errors import UserError
from ut_tf.layers.linear import Linear
from ut_tf.layers.position_encodings import PositionEncoding
from ut_tf.layers.transition import TransitionFunction
from ut_tf.models.universal_transformer.catalogue import HALTING_FORMS
from ut_tf.models.universal_transformer.cells import BasicCell
from ut_tf.models.universal_transformer.config import UniversalTransformerConfig as Config
from ut_tf.models.universal_transformer.halting.adaptive_computation_time import Basic
from ut_tf.models.universal_transformer.halting.fixed_depth import FixedDepth

TARGETS = np.array([[3, 4, 5, 1], [8, 1, 0, 0], [5, 5, 1, 0]], np.int32)


@keras.saving.register_keras_serializable("tests")
class Damped(BasicCell):
    """Half of the state stays; the other half is the mean of all steps' outputs."""

    def __init__(self, num_heads: int, damping: float = 0.5, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.num_heads, self.damping = num_heads, damping

    def initial_memory(self, inputs: Any) -> Any:
        return tf.zeros_like(inputs), tf.zeros_like(inputs[..., :1])

    def call(self, block_output: Any, state: Any, memory: Any, inputs: Any) -> tuple[Any, Any]:
        del inputs
        total, steps = memory[0] + block_output, memory[1] + 1.0
        return self.damping * state + (1.0 - self.damping) * total / steps, (total, steps)


@keras.saving.register_keras_serializable("tests")
class Remembering(BasicCell):
    """The block reads the sum of the state and of all outputs so far, each by its step from 1."""

    def block_input(self, state: Any, memory: Any, inputs: Any, step: Any) -> tuple[Any, Any]:
        del inputs, step
        return state + memory, memory

    def call(
        self, block_output: Any, state: Any, memory: Any, inputs: Any, step: Any
    ) -> tuple[Any, Any]:
        del state, inputs
        return block_output, memory + block_output / tf.cast(step + 1, block_output.dtype)


@keras.saving.register_keras_serializable("tests")
class Patient(Basic):
    """No position halts before the second step."""

    def probabilities(self, before: Any, after: Any, counted: Any, step: Any = 0) -> Any:
        own = super().probabilities(before, after, counted, step)
        return tf.where(tf.equal(step, 0), 0.0, own)


@keras.saving.register_keras_serializable("tests")
class AtOnceOrLate(Basic):
    """A position halts at its first step or at its fifth."""

    def probabilities(self, before: Any, after: Any, counted: Any, step: Any = 0) -> Any:
        del after, counted
        at_once = tf.logical_and(tf.equal(step, 0), tf.sin(40.0 * before[..., 0]) > 0)
        return tf.where(at_once, 1.0, 0.2)


@keras.saving.register_keras_serializable("tests")
class Squashed(TransitionFunction):
    """One affine map and a tanh."""

    def __init__(self, hidden_size: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.linear = Linear(hidden_size, name="linear", dtype=self.dtype_policy)

    def build(self, input_shape: Any) -> None:
        self.linear.build(input_shape)

    def call(
        self, x: Any, keep: Any = None, training: bool = False, output_scale: float = 1.0
    ) -> Any:
        del keep, training
        return output_scale * tf.tanh(self.linear(x))


class Ramp(PositionEncoding):
    """Positions grow along all channels."""

    adds_to_states = True

    def __init__(self, hidden_size: int) -> None:
        self.hidden_size = hidden_size

    def signal(self, positions: Any, counted: Any = None) -> Any:
        del counted
        return tf.repeat(0.1 * positions[..., None], self.hidden_size, -1)


OWN: dict[str, tuple[registry.Registry, Any]] = {
    "recurrence": (registry.cells, Damped),
    "halting": (registry.halting_forms, Patient),
    "transition": (registry.transitions, Squashed),
    "position": (registry.positions, Ramp),
}


@pytest.fixture
def own_names() -> Iterator[dict[str, str]]:
    """Registers the parts, and yields the fields of a network that is made of them."""
    for kind, part in OWN.values():
        kind.register("own", part)
    yield dict.fromkeys(OWN, "own")
    for kind, _ in OWN.values():
        del kind._registered["own"]


def test_a_cell_of_version_04_may_derive_from_another() -> None:
    class Former(BasicCell):
        def start(self, inputs: Any) -> Any:
            return inputs + 1.0

    class Derived(Former):
        def start(self, inputs: Any) -> Any:
            return inputs + 2.0

    assert Derived().initial_memory(1.0) == 3.0


def test_a_model_is_made_of_a_user_s_own_parts(own_names: dict[str, str]) -> None:
    model = random_model(**own_names, act_max_steps=4)
    recurrence = model.decoder
    assert type(recurrence.cell) is Damped and recurrence.cell.num_heads == 2
    assert type(recurrence.halting_unit) is Patient
    assert type(recurrence.block.transition) is Squashed
    assert type(model.position_encoding) is Ramp
    _, details = model({"inputs": INPUTS, "targets": TARGETS}, return_details=True)
    times = np.asarray(details.encoder.ponder_times)
    assert times[INPUTS > 0].min() >= 2.0 and (times[INPUTS == 0] == 0.0).all()
    assert len(model.losses) == 1


@pytest.mark.slow
@pytest.mark.parametrize("field", OWN)
def test_an_own_part_is_decoded_as_the_whole_prefix(own_names: dict[str, str], field: str) -> None:
    changes: dict[str, Any] = {"halting": "basic", "act_max_steps": 3, field: own_names[field]}
    check_decoding(random_model(**changes))


@pytest.mark.slow
def test_a_halted_position_whose_memory_the_block_reads_is_decoded_on(
    own_names: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(registry.cells._registered, "own", (Remembering, "here"))
    monkeypatch.setitem(registry.halting_forms._registered, "own", (AtOnceOrLate, "here"))
    names = {name: own_names[name] for name in ("recurrence", "halting")}
    model = random_model(act_max_steps=6, first_seed=6, **names)
    _, details = model({"inputs": INPUTS, "targets": TARGETS}, return_details=True)
    assert details.decoder.ponder_times[0, 1] < details.decoder.ponder_times[0, 2]
    check_decoding(model)


def check_decoding(model: Any) -> None:
    """Asserts that decoding position by position gives the logits of the whole sequence."""
    cache = model.start_decoding({"inputs": tf.constant(INPUTS)}, 3)
    whole = model({"inputs": INPUTS, "targets": TARGETS})
    previous = np.pad(TARGETS, [(0, 0), (1, 0)])
    for index in range(3):
        logits, cache = model.decode_step(
            tf.constant(previous[:, index]), tf.constant(index), cache
        )
        # Padded targets pay nothing and halt at once in the whole sequence.
        counted = TARGETS[:, index] > 0
        assert_close(logits[counted], whole[:, index][counted], 3e-5)


def test_the_configuration_asks_an_own_form_whether_it_is_dynamic(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Twice(FixedDepth):
        """A fixed depth of a user's own."""

    own = {"own_fixed": (Twice, ""), "own_dynamic": (Patient, "")}
    monkeypatch.setattr(registry.halting_forms, "_registered", own)
    assert Config(halting="own_fixed", recurrence="gru", eval_num_steps=9).eval_num_steps == 9
    with pytest.raises(UserError, match="halting=own_fixed: leave it out"):
        Config(halting="own_fixed", eval_act_max_steps=9)
    with pytest.raises(UserError, match="halting=own_dynamic needs recurrence=basic"):
        Config(halting="own_dynamic", recurrence="gru")


@pytest.mark.parametrize(
    "kind",
    [kind for kind, _ in OWN.values()]
    + [registry.exit_rules, registry.train_depths, registry.initial_states],
)
def test_the_catalogue_has_the_options_of_the_classes(kind: registry.Registry) -> None:
    for name in kind.names():
        part = kind.get(name).func  # type: ignore[attr-defined]
        assert kind.options(name) == getattr(part, "options", {})


@pytest.mark.parametrize("name", sorted(HALTING_FORMS))
def test_the_catalogue_says_of_halting_forms_what_their_classes_say(name: str) -> None:
    form = registry.halting_forms.get(name).func  # type: ignore[attr-defined]
    for attribute, default in (("dynamic", True), ("trains_all_steps", False)):
        assert registry.halting_forms.attribute(name, attribute, default) == getattr(
            form, attribute
        )
