"""Named sets: that each resolves, and the sizes and semantics that users rely on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tensorflow as tf
import yaml

from ut_tf import registry
from ut_tf.config.hparams import HParams, differences
from ut_tf.errors import UserError
from ut_tf.factories import make_hparams, make_model
from ut_tf.hparams.catalogue import HPARAMS_SETS, TENSOR2TENSOR
from ut_tf.models.graph_flop import graph_flop
from ut_tf.problem_spec import ProblemSpec
from ut_tf.problems.catalogue import PROBLEMS
from ut_tf.training.plan import BatchShape, RandomTraining

UNAVAILABLE = {
    name: entry.arguments["nearest"]
    for name, entry in HPARAMS_SETS.items()
    if "nearest" in entry.arguments
}
SETS = sorted(TENSOR2TENSOR - UNAVAILABLE.keys())
OURS = [
    name for name in HPARAMS_SETS if name not in TENSOR2TENSOR
]  # not of the registry, where tests add sets of their own
DROPOUTS = ("dropout", "attention_dropout", "relu_dropout")


def _sizes(name: str) -> tuple[int, ...]:
    network = registry.hparams_sets.get(name)().resolve().network
    return (
        network.hidden_size,
        network.filter_size,
        network.num_heads,
        network.num_steps,
        network.act_max_steps,
    )


@pytest.mark.parametrize("name", [*OURS, *SETS])
def test_every_set_resolves_and_survives_json(name):
    hparams = registry.hparams_sets.get(name)().resolve()
    assert HParams.from_json(hparams.to_json()) == hparams
    assert registry.hparams_sets.describe(name)


def test_every_set_keeps_the_dropout_that_it_had_in_0_4():
    kept = json.loads((Path(__file__).parent / "dropouts.json").read_text(encoding="utf-8"))
    expected = {name: rates for rates, names in kept.items() for name in names}
    found = {}
    for name in expected:
        network = registry.hparams_sets.get(name)().resolve().network
        rates = [getattr(network, field, None) for field in DROPOUTS]
        found[name] = " ".join("-" if rate is None else str(rate) for rate in rates)
    assert found == expected


def test_every_set_of_ours_names_the_problem_that_it_was_made_for():
    written = {}
    folder = Path(__file__).parents[2] / "hparams"
    others = {folder / "first_sets.yaml", folder / "tensor2tensor.yaml"}
    for path in {*folder.rglob("*.yaml")} - others:
        written |= yaml.safe_load(path.read_text(encoding="utf-8"))
    sets = {name: values for name, values in written.items() if not name.startswith("_")}
    assert {*sets} == {*OURS}
    assert {values["problem"] for values in sets.values()} <= {*PROBLEMS}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ut_tiny", (128, 512, 4, 8)),
        ("ut_small", (512, 2048, 8, 6)),
        ("ut_base", (1024, 4096, 16, 6)),
        ("ut_big", (2048, 8192, 16, 6)),
        ("ut_teeny", (128, 128, 2, 10)),
        ("ut_tall", (512, 2048, 8, 16)),
        ("universal_transformer_tiny", (128, 512, 4, 8, 4)),
        ("universal_transformer_base", (1024, 4096, 16, 6, 12)),
        ("universal_transformer_tall", (512, 2048, 8, 16, 12)),
        ("universal_transformer_teeny", (128, 128, 2, 10, 12)),
        ("adaptive_universal_transformer_tall", (512, 2048, 8, 6, 24)),
    ],
)
def test_sizes(name, expected):
    assert _sizes(name)[: len(expected)] == expected


@pytest.mark.parametrize(
    ("spec", "compared"),
    [
        (
            ProblemSpec("tokens", "tokens", 12, 12, shared_vocab=True),
            (
                "ut_algorithmic",
                "ut_act_algorithmic",
                "transformer_algorithmic",
                "lstm_attention_tiny",
            ),
        ),
        (
            ProblemSpec("facts", "class", 22, 6, max_words=6),
            ("ut_babi", "ut_act_babi", "transformer_babi", "lstm_tiny"),
        ),
    ],
)
def test_compared_systems_have_as_many_parameters(spec, compared):
    made = [registry.hparams_sets.get(name)().resolve() for name in compared]
    counts = [
        registry.models.get(hparams.model)(hparams.network, spec).count_params() for hparams in made
    ]
    assert max(counts) < 1.02 * min(counts), dict(zip(compared, counts, strict=True))


@pytest.mark.parametrize("size", ["tiny", "small", "base"])
def test_halting_sets_are_the_fixed_ones_with_halting(size):
    fixed, halting = (
        registry.hparams_sets.get(name)() for name in (f"ut_{size}", f"ut_act_{size}")
    )
    assert {text.partition(":")[0] for text in differences(fixed, halting)} == {
        "halting",
        "act_max_steps",
    }
    assert halting.network.halting == "basic"


@pytest.mark.parametrize(
    "name", [f"ut_{size}" for size in ("tiny", "small", "base", "big", "teeny", "tall")]
)
def test_our_sets_keep_the_paper_s_semantics_and_the_usual_optimizer(name):
    hparams = registry.hparams_sets.get(name)()
    sizes = {"hidden_size", "filter_size", "num_heads", "num_steps", *DROPOUTS}
    assert {text.partition(":")[0] for text in differences(HParams(), hparams)} <= sizes
    training = hparams.training
    assert (
        training.batch_size,
        training.learning_rate,
        training.warmup_steps,
        training.schedule,
    ) == (4096, 2.0, 8000, "noam")
    assert (
        training.adam_beta1,
        training.adam_beta2,
        training.adam_epsilon,
        training.label_smoothing,
    ) == (0.9, 0.997, 1e-9, 0.1)


@pytest.mark.parametrize("name", SETS)
def test_tensor2tensor_s_semantics(name):
    network = registry.hparams_sets.get(name)().network
    assert (network.norm, network.position, network.kernel_init) == (
        "pre",
        "tensor2tensor",
        "unit_scaling",
    )
    assert (network.halted_states, network.padding_ponders, network.act_halting_bias_init) == (
        "transform",
        True,
        1.0,
    )
    assert network.position_every_step
    assert (network.halting != "none") == name.startswith("adaptive")
    expected = (
        "none"
        if "gru" in name or "lstm" in name
        else "sinusoid"
        if "sinusoid" in name
        else "learned"
    )
    assert network.step_encoding == expected


def test_tensor2tensor_s_variants():
    def network(name):
        return registry.hparams_sets.get(name)().network

    assert network("universal_transformer_sepconv_base").transition == "sepconv"
    assert network("universal_transformer_lstm_tall").recurrence == "lstm"
    assert network("adaptive_universal_transformer_global_base").halting == "global"
    dropped = network("adaptive_universal_transformer_base_dropout05")
    assert (dropped.dropout, dropped.attention_dropout, dropped.relu_dropout) == (0.5, 0.5, 0.5)
    assert network("adaptive_universal_transformer_tall_actlossw001").act_loss_weight == 0.001
    assert (
        registry.hparams_sets.get("adaptive_universal_transformer_tall")().training.batch_size
        == 1024
    )


@pytest.mark.parametrize("name", UNAVAILABLE)
def test_a_set_that_is_not_built_says_so_and_names_one_that_is(name):
    with pytest.raises(UserError, match="not available yet"):
        registry.hparams_sets.get(name)()
    assert UNAVAILABLE[name] in SETS


SPEC = ProblemSpec("none", "tokens", 0, 1000)


def test_the_partner_of_equal_parameters_has_as_many() -> None:
    counts = [
        make_model(make_hparams(name, ""), SPEC, 0).count_params()
        for name in ("huginn_tiny", "huginn_tiny_equal_parameters")
    ]
    # The embedding, which all have, is left out.
    own = [count - 1000 * 128 for count in counts]
    assert own[1] == pytest.approx(own[0], rel=0.05)


@pytest.mark.slow
def test_updates_of_the_partner_of_equal_flop_have_as_many() -> None:
    batch = BatchShape(16, 0, 128)
    found = {}
    for name in ("huginn_tiny", "huginn_tiny_equal_flop", "huginn_tiny_equal_parameters"):
        trained = RandomTraining(make_hparams(name, ""), SPEC, tf.distribute.get_strategy())
        found[name] = graph_flop(*trained.graph(batch))
    first, equal, cheap = found.values()
    assert equal == pytest.approx(first, rel=0.05) and cheap < 0.5 * first


# Ids and positions of each set's problem; of one whose steps grow with the length the mean length.
QUICK_PARTNERS = ("ut_trm_sudoku4", "ut_maze", "ut_prefix_sums", "ut_s5")
REASONING_SETS = {
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
    return ProblemSpec("tokens", "aligned", *[REASONING_SETS[name][0]] * 2, shared_vocab=True)


@pytest.mark.parametrize(
    "name",
    [pytest.param(x, marks=[pytest.mark.slow] * (x not in QUICK_PARTNERS)) for x in REASONING_SETS],
)
def test_the_partner_of_equal_parameters_has_as_many_reasoning_sets(name: str) -> None:
    own, partner = (
        sum(
            weight.shape.num_elements()
            for weight in make_model(make_hparams(each), spec(name), 0).trainable_variables
        )
        for each in (name, f"{name}_equal_parameters")
    )
    assert partner == pytest.approx(own, rel=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("name", REASONING_SETS)
def test_updates_of_the_partner_of_equal_flop_have_as_many_reasoning_sets(name: str) -> None:
    def flop(hparams_set: str) -> float:
        trained = RandomTraining(
            make_hparams(hparams_set), spec(name), tf.distribute.get_strategy()
        )
        return graph_flop(*trained.graph(BatchShape(2, REASONING_SETS[name][1], 0)))

    assert flop(f"{name}_equal_flop") == pytest.approx(flop(name), rel=0.1)
