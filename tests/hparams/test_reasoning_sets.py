"""Partners of the reasoning sets: equal sizes by the library's own counts; TRM in its own size."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import tensorflow as tf

from ut_tf.bin.training_plan import plan_text
from ut_tf.factories import make_hparams, make_model
from ut_tf.problem_spec import ProblemSpec
from ut_tf.run import Run
from ut_tf.training.plan import BatchShape, RandomTraining, graph_flop

# Ids and positions of each set's problem; of one whose steps grow with the length the mean length.
SETS = {
    "ut_trm_sudoku4": (7, 16),
    "ut_trm_sudoku6": (9, 36),
    "ut_hrm_sudoku6": (9, 36),
    "ut_iterated_sudoku6": (9, 36),
    "ut_deep_thinking_prefix_sums": (4, 32),
    "ut_prefix_sums": (4, 16),
    "ut_parity": (4, 20),
    "ut_s5": (122, 16),
    "ut_p_hop": (7, 68),
    "ut_maze": (7, 81),
}


def spec(name: str) -> ProblemSpec:
    return ProblemSpec("tokens", "aligned", *[SETS[name][0]] * 2, shared_vocab=True)


@pytest.mark.parametrize("name", SETS)
def test_the_partner_of_equal_parameters_has_as_many(name: str) -> None:
    own, partner = (
        sum(
            weight.shape.num_elements()
            for weight in make_model(make_hparams(each), spec(name), 0).trainable_variables
        )
        for each in (name, f"{name}_equal_parameters")
    )
    assert partner == pytest.approx(own, rel=0.05)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name == "ut_trm_sudoku4" else [pytest.mark.slow])
        for name in SETS
    ],
)
def test_updates_of_the_partner_of_equal_flop_have_as_many(name: str) -> None:
    def flop(hparams_set: str) -> float:
        trained = RandomTraining(
            make_hparams(hparams_set), spec(name), tf.distribute.get_strategy()
        )
        return graph_flop(*trained.graph(BatchShape(2, SETS[name][1], 0)))

    assert flop(f"{name}_equal_flop") == pytest.approx(flop(name), rel=0.1)


@pytest.mark.slow
def test_trm_in_its_own_size_is_planned_without_its_data() -> None:
    run = Run.plan("puzzle_folder", "ut_trm_sudoku9", "batch_size=1")
    text = plan_text(run, SimpleNamespace(train_steps=None), tf.distribute.get_strategy())
    # The paper says 5 million with mlp_t.
    parameters = int(text.split("parameters")[1].split()[0].replace(",", ""))
    assert 4.9e6 < parameters < 5.2e6
    assert "vocabularies of 13 and 13 symbols" in text and "65,104 updates" in text
