"""Batches that refill: the answers, steps and order of examples that come and go on their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.close import assert_close
from tests.search.models import CLASSES, SPEC, random_model, random_transformer
from tests.serving import toy
from ut_tf.errors import UserError
from ut_tf.inference.refill import Refill
from ut_tf.inference.translator import Translator
from ut_tf.problem_spec import ProblemSpec

ALIGNED = ProblemSpec("tokens", "aligned", 9, 9)
LENGTH = 6
BASIC = {"halting": "basic", "act_max_steps": 5, "act_halting_bias_init": -0.3}
FORMS: dict[str, tuple[ProblemSpec, dict[str, Any]]] = {
    "basic": (ALIGNED, BASIC),
    "classes": (CLASSES, BASIC | {"step_encoding": "learned", "act_max_steps": 9}),
    "rule": (ALIGNED, {"eval_exit": "kl", "eval_exit_threshold": 0.2, "eval_num_steps": 9}),
    "fixed": (ALIGNED, {"eval_num_steps": 3}),
    "concat": (ALIGNED, BASIC | {"coordinate_form": "concat", "act_last_step": "remainder"}),
    "pondernet": (ALIGNED, {"halting": "pondernet", "act_max_steps": 4}),
    "feedback": (
        ALIGNED,
        {
            "prediction_feedback": True,
            "eval_exit": "state_difference",
            "eval_exit_threshold": 0.5,
            "eval_num_steps": 9,
        },
    ),
    "two levels": (
        ALIGNED,
        {"H_cycles": 2, "L_cycles": 2, "initial_state": "noise", "q_head": True, "eval_exit": "q"},
    ),
    "mixed": (ALIGNED, BASIC | {"mix_layers_before": 1, "mix_layers_after": 1}),
}
QUICK = ("basic",)
forms = pytest.mark.parametrize(
    "form", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in FORMS]
)


def _model(form: str) -> Any:
    keras.utils.set_random_seed(1)
    spec, options = FORMS[form]
    return random_model(spec=spec, **options)


def _examples(count: int, seed: int = 0) -> list[dict[str, Any]]:
    """Inputs of 1 to LENGTH symbols, padded."""
    rng = np.random.default_rng(seed)
    ids = rng.integers(2, 9, [count, LENGTH]).astype(np.int32)
    ids[np.arange(LENGTH) >= rng.integers(1, LENGTH + 1, [count, 1])] = 0
    return [{"inputs": row} for row in ids]


@forms
def test_answers_and_steps_are_those_of_each_example_alone(form: str) -> None:
    model, examples = _model(form), _examples(6, seed=3)
    done = {one.number: one for one in Refill(model, slots=2)(examples)}
    assert sorted(done) == [*range(6)]
    for number, example in enumerate(examples):
        logits, details = model({"inputs": example["inputs"][None]}, return_details=True)
        assert_close(done[number].outputs["logits"], logits[0], 1e-5)
        longest = float(np.max(details.encoder.ponder_times[0]))
        assert done[number].steps == longest
    if form not in ("fixed", "two levels"):
        assert len({one.steps for one in done.values()}) > 1


@settings(max_examples=3, deadline=None)
@given(order=st.permutations(range(7)), first=st.integers(0, 7))
def test_the_order_of_arrival_changes_no_bit(order: list[int], first: int) -> None:
    examples = _examples(7, seed=2)
    # What has come before does not matter, either.
    before = _examples(first, seed=3)
    for number, logits, steps in _run([*before, *(examples[one] for one in order)]):
        if number >= first:
            expected = _in_order()[order[number - first]]
            np.testing.assert_array_equal(logits, expected[0])
            assert steps == expected[1]


_known: dict[str, Any] = {}


def _refill() -> Refill:
    if "refill" not in _known:
        _known["refill"] = Refill(_model("basic"), slots=4)
    refill: Refill = _known["refill"]
    return refill


def _run(examples: list[dict[str, Any]]) -> list[tuple[int, Any, int]]:
    return [(one.number, one.outputs["logits"], one.steps) for one in _refill()(examples)]


def _in_order() -> dict[int, tuple[Any, int]]:
    if "expected" not in _known:
        found = _run(_examples(7, seed=2))
        _known["expected"] = {number: (logits, steps) for number, logits, steps in found}
    expected: dict[int, tuple[Any, int]] = _known["expected"]
    return expected


def test_no_examples_are_no_answers() -> None:
    assert list(_refill()([])) == []


@pytest.mark.slow
def test_short_examples_are_padded_and_long_ones_told() -> None:
    (first,) = _examples(1)
    short, long = np.array([3, 4], np.int32), np.full([LENGTH + 1], 3, np.int32)
    answers = {
        one.number: one.outputs["logits"] for one in _refill()([first, {"inputs": short}, first])
    }
    np.testing.assert_array_equal(answers[0], answers[2])
    (alone,) = _refill()([{"inputs": np.pad(short, (0, LENGTH - 2))}])
    np.testing.assert_array_equal(answers[1], alone.outputs["logits"])
    with pytest.raises(UserError, match=r"example 4: 'inputs' has the shape \(7,\).* `length`"):
        list(_refill()([first] * 4 + [{"inputs": long}]))
    roomy = Refill(_model("basic"), slots=2, length=LENGTH + 1)
    assert len(list(roomy([first, {"inputs": long}]))) == 2


@pytest.mark.usefixtures("eager")
def test_texts_are_answered_as_the_translator_answers_them(tmp_path: Path) -> None:
    run = toy.untrained_run(tmp_path, "letter_questions", "act_max_steps=5,act_epsilon=0.01")
    model, codec = toy.restored(run), run.text_codec()
    examples = [("", ""), ("abc", "d"), ("jihg", "ab"), ("a", "b"), ("cdefgh", "")]
    expected = [best[0] for best in Translator(model, codec).translate(examples)]
    # The first ones are blank, or shorter than those beside them.
    found = {one.number: one for one in Refill(model, 3, codec=codec)(examples)}
    assert [found[number].outputs["text"] for number in range(5)] == [one.text for one in expected]
    assert len({one.text for one in expected}) > 1
    scores = [float(found[number].outputs["score"]) for number in range(5)]
    assert scores == pytest.approx([one.score for one in expected], abs=1e-5)
    with pytest.raises(UserError, match=r"example 2: 'inputs' has .* room for \(2,\)"):
        list(Refill(model, 2, codec=codec)([("", ""), ("a", "b"), ("abc", "d")]))
    assert [one.steps > 0 for one in Refill(model, 2, codec=codec)([("", "")])] == [True]


@pytest.mark.slow
def test_features_without_positions_keep_their_shape() -> None:
    ids, other = np.full([3], 4, np.int32), np.array([1.0, 2.0], np.float32)

    def outputs(logits: Any, details: Any, features: dict[str, Any]) -> dict[str, Any]:
        del logits, details
        return features

    refill = Refill(_model("basic"), slots=2, outputs=outputs, length=LENGTH)
    ((_, found, _),) = refill([{"inputs": ids, "other": other}])
    np.testing.assert_array_equal(found["inputs"], [4, 4, 4, 0, 0, 0])
    np.testing.assert_array_equal(found["other"], other)


def test_a_model_that_decodes_or_chooses_is_refused() -> None:
    keras.utils.set_random_seed(1)
    noise = {"initial_state": "noise", "input_injection": "add"}
    several = random_model(spec=ALIGNED, eval_restarts=2, **noise)
    with pytest.raises(UserError, match=r"eval_restarts=2 chooses .* set it to 1"):
        Refill(several)
    for model in (random_model(spec=SPEC), random_transformer()):
        with pytest.raises(UserError, match=r"answers from its encoder.* with whole batches"):
            Refill(model)
