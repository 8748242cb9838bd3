"""A halting sum of exactly the threshold halts with its remainder (Graves, arXiv 1603.08983,
equation 6).
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.configs import small_config
from ut_tf.models.bounded import check_layers
from ut_tf.models.universal_transformer.halting.base import halting_step, start_halting
from ut_tf.models.universal_transformer.model import UniversalTransformer
from ut_tf.problem_spec import ProblemSpec
from ut_tf.search.scoring import log_probabilities

SIZES = {"hidden_size": 8, "filter_size": 16, "num_heads": 2, "num_steps": 2, "act_max_steps": 6}


@pytest.mark.parametrize(("probability", "steps"), [(0.5, 1), (0.25, 2), (0.125, 4)])
def test_a_sum_of_exactly_the_threshold_leaves_its_remainder(
    probability: float, steps: int
) -> None:
    state, total = start_halting(tf.ones([1, 1])), 0.0
    for _ in range(6):
        state, weight, _ = halting_step(state, tf.fill([1, 1], probability), 0.5)
        total += weight.numpy().item()
    assert total == 1.0
    assert state.ponder_times.numpy().item() == steps
    assert state.remainders.numpy().item() == 1.0 - probability * (steps - 1)


@pytest.mark.parametrize("compute", ["dense", "compact"])
def test_both_loops_stop_there(compute: str) -> None:
    keras.utils.set_random_seed(0)
    options = {"halting": "accumulated", "act_epsilon": 0.5, "halting_compute": compute}
    model = UniversalTransformer(
        small_config(UniversalTransformer, SIZES, **options), ProblemSpec("tokens", "class", 9, 2)
    )
    linear = model.encoder.halting_unit.linear
    linear.set_weights([np.zeros_like(values) for values in linear.get_weights()])
    _, details = model({"inputs": np.array([[3, 4, 0]])}, return_details=True)
    # sigmoid(0) is a half, and so is the threshold.
    np.testing.assert_array_equal(details.encoder.ponder_times, [[1, 1, 0]])
    np.testing.assert_array_equal(details.encoder.remainders, [[1, 1, 0]])


@pytest.mark.parametrize("halting", ["basic", "accumulated"])
def test_one_position_after_the_other_stops_where_the_whole_sequence_does(halting: str) -> None:
    keras.utils.set_random_seed(0)
    options = {"halting": halting, "act_epsilon": 0.5}
    model = UniversalTransformer(
        small_config(UniversalTransformer, SIZES, **options), ProblemSpec("tokens", "tokens", 9, 9)
    )
    inputs = np.array([[3, 4, 5, 1], [6, 1, 0, 0]])
    model({"inputs": inputs, "targets": np.array([[3], [4]])})
    for part in (model.encoder, model.decoder):
        linear = part.halting_unit.linear
        linear.set_weights([np.zeros_like(values) for values in linear.get_weights()])
    written = model.generate({"inputs": inputs}, beam_size=1, extra_length=2)
    targets = written.symbols[:, 0]
    _, details = model({"inputs": inputs, "targets": targets}, return_details=True)
    present = (targets.numpy() != 0).astype(np.float32)
    np.testing.assert_array_equal(details.decoder.ponder_times, present)
    whole = log_probabilities(model, {"inputs": inputs, "targets": targets})
    np.testing.assert_allclose(written.scores[:, 0], whole, rtol=1e-5)


def test_depth_per_example_leaves_no_array_unread(capfd: Any) -> None:
    options = {"steps_per_position": 0.5}
    model = UniversalTransformer(
        small_config(UniversalTransformer, SIZES, **options), ProblemSpec("tokens", "class", 9, 2)
    )
    model({"inputs": np.array([[3, 4, 0]])})
    assert "never used" not in capfd.readouterr().err


def test_shared_steps_need_no_parameters_of_their_own() -> None:
    check_layers({"hidden_size": 8, "num_steps": 200}, 612)
