"""Every form of dynamic halting in a decoder: no target reaches an earlier logit, and a search
finds what it would score.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.close import assert_close
from tests.search.models import INPUTS, LANGUAGE, SPEC, random_model
from ut_tf.data.problem import ProblemSpec
from ut_tf.search.scoring import log_probabilities

FORMS = ("none", "basic", "accumulated", "global", "random", "pondernet")
TARGETS = np.array([[3, 4, 5, 8, 6, 1], [7, 2, 3, 1, 0, 0], [2, 2, 6, 1, 0, 0]], np.int32)
HALTING: dict[str, Any] = {"act_max_steps": 4, "act_halting_bias_init": -0.5}
specs = pytest.mark.parametrize("spec", [SPEC, LANGUAGE], ids=["encoder-decoder", "language model"])


def _model(form: str, spec: ProblemSpec, **changes: Any) -> Any:
    return random_model(spec=spec, halting=form, **({} if form == "none" else HALTING), **changes)


def _features(spec: ProblemSpec, targets: Any) -> dict[str, Any]:
    return {"targets": targets} if spec.inputs == "none" else {"inputs": INPUTS, "targets": targets}


def _logits(model: Any, targets: np.ndarray) -> np.ndarray:
    """Returns float32 [batch, length, vocab]; random halting draws the same numbers at
    every call.
    """
    units = [
        layer.seed_generator
        for layer in model._flatten_layers()
        if getattr(layer, "seed_generator", None) is not None
    ]
    for number, generator in enumerate(units):
        generator.state.assign([number, 0])
    return np.asarray(model(_features(model.spec, targets)))


def _influence(model: Any, position: int) -> np.ndarray:
    """Returns by how much the target at `position` of the first example changes its logits, float32
    [length].
    """
    changed = TARGETS.copy()
    changed[0, position] = 9 - changed[0, position]
    return np.abs(_logits(model, changed) - _logits(model, TARGETS))[0].max(-1)


@pytest.mark.parametrize(
    ("form", "spec", "halted_states"),
    [
        *((form, SPEC, "copy") for form in FORMS),
        *((form, LANGUAGE, "copy") for form in ("basic", "global")),
        pytest.param("random", LANGUAGE, "copy", marks=pytest.mark.slow),
        ("basic", SPEC, "transform"),
        *(
            pytest.param(form, SPEC, "transform", marks=pytest.mark.slow)
            for form in ("accumulated", "global", "random")
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else f"inputs={value.inputs}",
)
@pytest.mark.usefixtures("eager")
def test_no_target_reaches_an_earlier_logit(
    form: str, spec: ProblemSpec, halted_states: str
) -> None:
    found = _influence(
        _model(
            form, spec, halted_states=halted_states, padding_ponders=halted_states == "transform"
        ),
        3,
    )
    assert found[:4].max() < 1e-4 < 1e-3 < found[4:].max()


@specs
@pytest.mark.usefixtures("eager")
def test_the_mean_over_the_sequence_sees_later_targets(spec: ProblemSpec) -> None:
    """What tensor2tensor does, and why it is not the default; here its effect on the first logits
    can be measured.
    """
    assert _influence(_model("global", spec, global_mean="sequence"), 3)[:3].max() > 1e-3


@pytest.mark.parametrize(
    ("form", "spec"),
    [
        pytest.param(
            form,
            spec,
            id=f"{form}, inputs={spec.inputs}",
            # tests/search/test_cache.py searches with basic halting.
            marks=[] if form == "global" else [pytest.mark.slow],
        )
        for form in FORMS
        for spec in (SPEC, LANGUAGE)
        if form != "random"  # It draws anew at every position.
    ],
)
@pytest.mark.usefixtures("rewritten_graphs")
def test_a_search_finds_the_score_of_the_given_targets(form: str, spec: ProblemSpec) -> None:
    model = _model(form, spec)
    given = {"batch_size": 3} if spec.inputs == "none" else {"inputs": INPUTS}
    search = tf.function(
        lambda: model.generate(given, beam_size=2, n_best=2, alpha=0.0, min_length=4, max_length=6),
        autograph=False,
    )
    symbols, scores = (np.asarray(part) for part in search())
    for rank in range(2):
        assert_close(
            scores[:, rank], log_probabilities(model, _features(spec, symbols[:, rank])), 1e-5
        )


@pytest.mark.parametrize("padding_ponders", [False, True])
@pytest.mark.usefixtures("eager")
def test_padding_and_batch_mates_do_not_change_the_mean_so_far(padding_ponders: bool) -> None:
    model = _model("global", SPEC, padding_ponders=padding_ponders)
    together = model({"inputs": INPUTS[:1], "targets": TARGETS[2:]})
    alone = model({"inputs": INPUTS[:1], "targets": TARGETS[2:, :4]})
    assert_close(together[:, :4], alone, 1e-5)
