"""Deep supervision: which examples stay, from which states they go on, and the original code's
updates (tests/golden/recursive/trm_training).
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.close import assert_close
from tests.search.models import random_model, random_transformer
from tests.training.toy import mirrored, run_steps
from ut_tf.errors import UserError
from ut_tf.factories import make_hparams
from ut_tf.interop.hrm_trm import load_recursive
from ut_tf.metrics.losses import stablemax_cross_entropy
from ut_tf.problem_spec import ProblemSpec
from ut_tf.run import Run
from ut_tf.training.deep_supervision import HeldExamples
from ut_tf.training.objective import Call, Objective, make_objective

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "recursive" / "trm_training"
ALIGNED = ProblemSpec("tokens", "aligned", 9, 9, shared_vocab=True)
NO_DROPOUT = {"dropout": 0.0, "attention_dropout": 0.0, "relu_dropout": 0.0}
PARTS = {
    "q_head": True,
    "input_injection": "add",
    "initial_state": "learned",
    "num_steps": 2,
    "step_encoding": "none",
}


def made(model: Any, **training: Any) -> Objective:
    given = {"supervision": "deep", "label_smoothing": 0, **training}
    changes = ",".join(f"{name}={value}" for name, value in given.items())
    return make_objective(model, make_hparams("ut_tiny", f"q_head=true,{changes}"), 1)


def batch(number: int, rows: int = 4, length: int = 5) -> dict[str, Any]:
    """A batch whose rows can be told from all others."""
    ids = np.random.default_rng(number).integers(2, 9, [rows, length]).astype(np.int32)
    given = {"inputs": ids, "targets": ids[:, ::-1], "weight": np.ones(rows, np.float32)}
    given["update"] = np.array([5, number], np.int64)
    return {name: tf.constant(value) for name, value in given.items()}


def updates(of: Objective, count: int, **options: Any) -> list[Any]:
    """The carries before the first update and after each of them."""
    carries = [of.start(batch(0, **options))]
    for number in range(count):
        features = batch(number, **options)
        carries.append(of.sums(features, of.counts(features, carries[-1]), carries[-1])[1])
    return carries


@pytest.fixture(scope="module")
def model() -> Any:
    """A model whose weights no test changes."""
    return random_model(spec=ALIGNED, **PARTS, **NO_DROPOUT)


def test_one_update_for_each_example_is_plain_training(model: Any) -> None:
    deep = made(model, supervision_steps=1, q_loss_weight=0)
    final = make_objective(model, make_hparams("ut_tiny", "label_smoothing=0"), 1)
    carry = deep.start(batch(0))
    for number in range(3):
        features = batch(number)
        sums, carry = deep.sums(features, deep.counts(features, carry), carry)
        expected = final.sums(features, final.counts(features))[0].loss
        assert float(sums.loss) == pytest.approx(float(expected), rel=1e-6)
        assert bool(tf.reduce_all(carry["halted"]))


def test_a_row_that_stays_goes_on_from_a_constant_state(model: Any) -> None:
    deep = made(model, replace_by="end", supervision_steps=2)
    _, once, twice, thrice = updates(deep, 3)
    np.testing.assert_array_equal(twice["inputs"], batch(0)["inputs"])
    np.testing.assert_array_equal(thrice["inputs"], batch(2)["inputs"])
    longer = random_model(spec=ALIGNED, **{**PARTS, "num_steps": 4}, **NO_DROPOUT)
    longer.set_weights(model.get_weights())
    whole = longer(
        {
            **batch(0),
            "carry": model.carry_like(batch(0)["inputs"]),
            "fresh": tf.constant([True] * 4),
        },
        training=True,
        return_details=True,
    )[1].encoder
    np.testing.assert_array_equal(twice["carry"][0], whole.carry[0])
    assert twice["steps"].numpy().tolist() == [2] * 4 and thrice["steps"].numpy()[0] == 1
    with tf.GradientTape() as tape:
        features = batch(1)
        loss = deep.sums(features, deep.counts(features, once), once)[0].loss
    start = model.encoder.initial_state.vector.value
    # The first update alone has the start in its gradient.
    gradient = tape.gradient(loss, start)
    assert gradient is None or not np.any(gradient)


def test_what_has_halted_leaves_nothing_behind(model: Any) -> None:
    deep = made(model)
    carry = deep.start(batch(0))
    poisoned = {**carry, "carry": tf.nest.map_structure(lambda x: x + np.nan, carry["carry"])}
    features = batch(0)
    results = [deep.sums(features, deep.counts(features, one), one) for one in (carry, poisoned)]
    assert float(results[0][0].loss) == float(results[1][0].loss)
    np.testing.assert_array_equal(results[0][1]["carry"][0], results[1][1]["carry"][0])


def test_a_row_holds_examples_of_its_own_place_alone(model: Any) -> None:
    deep = made(model, replace_by="random", replace_after=2.0, supervision_steps=4)
    held: list[list[int]] = [[] for _ in range(4)]
    for carry in updates(deep, 10)[1:]:
        for row in range(4):
            ids = carry["inputs"][row].numpy()
            (number,) = (n for n in range(10) if (batch(n)["inputs"][row].numpy() == ids).all())
            held[row].append(number)
    for numbers in held:
        assert numbers == sorted(numbers) and len(set(numbers)) > 2
        # A new example is that of the update at which it comes.
        assert all(
            n == place for place, n in enumerate(numbers) if place == 0 or n != numbers[place - 1]
        )
        assert max(numbers.count(n) for n in set(numbers)) <= 4
    assert len({tuple(numbers) for numbers in held}) > 1


def test_the_loss_is_reported_by_the_update_of_the_example(model: Any) -> None:
    deep = made(model, replace_by="random", replace_after=2.0, supervision_steps=3)
    carries = updates(deep, 4)
    features = {**batch(4), "weight": tf.constant([1.0, 1.0, 0.0, 1.0])}
    sums, after = deep.sums(features, deep.counts(features, carries[-1]), carries[-1])
    totals, counts = sums.reported["step_losses"].numpy()
    weight = after["weight"].numpy()
    expected = np.bincount(after["steps"].numpy() - 1, weights=weight, minlength=3)
    np.testing.assert_array_equal(counts, expected)
    assert totals.sum() / weight.sum() == pytest.approx(float(sums.losses["cross_entropy"]))
    assert (counts > 0).sum() > 1


@pytest.mark.parametrize("share", [0.1, 1.0])
def test_exploration_draws_every_number_of_updates_alike(share: float) -> None:
    rows, most = 4000, 5
    changes = f"supervision=deep,q_head=true,supervision_steps={most},halt_exploration={share}"
    held = HeldExamples(None, make_hparams("ut_tiny", changes).training)
    values = SimpleNamespace(q_values=tf.ones([rows, 2]), carry=())
    for steps in range(1, most + 1):
        features = {"steps": tf.fill([rows], steps - 1), "update": tf.constant([3, steps])}
        call = Call(features, None, SimpleNamespace(encoder=values))
        stay = rows - int(tf.math.count_nonzero(held.after(call)["halted"]))
        # Of the explorers, those who drew one of steps + 1 to most from 2 to most.
        chance = share * min((most - steps) / (most - 1), 1.0)
        assert abs(stay - rows * chance) <= 4 * (rows * chance * (1 - chance)) ** 0.5


def test_the_updates_of_the_original_code() -> None:
    golden = np.load(GOLDEN.with_suffix(".npz"))
    model = load_recursive(GOLDEN.with_suffix(".pth"), GOLDEN.with_suffix(".yaml"))
    deep = made(model, loss="stablemax", supervision_steps=3, halt_exploration=0)
    steps = sum(1 for name in golden.files if name.endswith("/loss_sum"))
    carry: Any = None
    for number in range(steps):
        given = {name: golden[f"batch_{number}/{name}"] for name in ("inputs", "labels")}
        features = {
            "inputs": tf.constant(given["inputs"] + 2, tf.int32),
            "targets": tf.constant(np.where(given["labels"] < 0, 0, given["labels"] + 2), tf.int32),
            "puzzles": tf.constant(golden[f"batch_{number}/puzzle_identifiers"], tf.int32),
            "weight": tf.ones([6]),
            "update": tf.constant([0, number], tf.int64),
        }
        carry = deep.start(features) if carry is None else carry
        with tf.GradientTape() as tape:
            found, carry = deep.sums(features, deep.counts(features, carry), carry)
            loss = found.loss
        at = f"step_{number}/"
        assert gradient_norms(model, tape, loss) == pytest.approx(
            {
                name.rpartition("/")[2]: float(golden[name])
                for name in golden.files
                if name.startswith(f"{at}gradient_norm/")
            },
            rel=5e-3,
        )
        names = ("cross_entropy", "q_loss")
        expected = (golden[f"{at}lm_loss"] / 6, 0.5 * golden[f"{at}q_halt_loss"] / 6)
        for name, value in zip(names, expected, strict=True):
            assert float(found.losses[name]) == pytest.approx(float(value), rel=2e-3), (at, name)
        assert float(found.loss) == pytest.approx(float(golden[f"{at}loss_sum"]) / 6, rel=2e-3)
        np.testing.assert_array_equal(carry["halted"], golden[f"{at}halted"])
        np.testing.assert_array_equal(carry["steps"], golden[f"{at}row_steps"])
        np.testing.assert_array_equal(carry["inputs"] - 2, golden[f"{at}rows_inputs"])
        states = [golden[f"{at}z_H"], golden[f"{at}z_L"]]
        for one, other in zip(carry["carry"], states, strict=True):
            assert_close(one, other, 2e-3)
        # The networks are chaotic: each update begins where the original one did.
        carry["carry"] = tuple(map(tf.constant, states))
    assert steps > 3


def gradient_norms(model: Any, tape: Any, loss: Any) -> dict[str, float]:
    """The norms of gradients by the original code's names of weights."""
    values = {weight.path: weight.value for weight in model.trainable_variables}
    squares = {
        path: float(tf.reduce_sum(tf.square(tf.convert_to_tensor(gradient))))
        for path, gradient in tape.gradient(loss, values).items()
    }
    paths = {
        "embed_tokens.embedding_weight": ["input_embedding/table"],
        "lm_head.weight": ["classifier/kernel"],
        "q_head.weight": ["encoder/stack/q_head/kernel"],
        "q_head.bias": ["encoder/stack/q_head/bias"],
    }
    for number in range(2):
        theirs, ours = f"L_level.layers.{number}.", f"encoder/stack/block/block_{number}/"
        kernels = [f"{ours}self_attention/{name}_kernel" for name in ("query", "key", "value")]
        paths[f"{theirs}self_attn.qkv_proj.weight"] = kernels
        paths[f"{theirs}self_attn.o_proj.weight"] = [f"{ours}self_attention/output/kernel"]
        paths[f"{theirs}mlp.gate_up_proj.weight"] = [f"{ours}transition/inner/kernel"]
        paths[f"{theirs}mlp.down_proj.weight"] = [f"{ours}transition/outer/kernel"]
    norms = {
        f"inner.{name}": sum(squares.pop(path) for path in own) ** 0.5
        for name, own in paths.items()
    }
    # Theirs has no bias, and a gradient of its own for the vectors of puzzles.
    assert set(squares) == {"classifier/bias", "encoder/memory/vectors"}
    return norms


def test_stablemax() -> None:
    logits = np.array([-1e4, -1.0, 0.0, 1.0, 1e4])
    scores = np.where(logits >= 0, logits + 1, 1 / (1 - np.minimum(logits, 0)))
    for target in range(5):
        found = stablemax_cross_entropy(tf.constant(logits[None]), tf.constant([target]))[0]
        assert float(found) == pytest.approx(-np.log(scores[target] / scores.sum()), rel=1e-6)
    equal = stablemax_cross_entropy(tf.zeros([3, 7]), tf.constant([1, 2, 6]))
    assert_close(equal, np.full(3, np.log(7.0)), 1e-6)
    huge = tf.constant([[-1e6, 1e6, 0.0]])
    with tf.GradientTape() as tape:
        tape.watch(huge)
        loss = stablemax_cross_entropy(huge, tf.constant([0]))
    assert np.isfinite(loss).all() and np.isfinite(tape.gradient(loss, huge)).all()
    # The two sides meet at 0 with the same slope.
    points = tf.constant([[-1e-6, 0.0], [1e-6, 0.0]], tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(points)
        loss = tf.reduce_sum(stablemax_cross_entropy(points, tf.constant([0, 0])))
    below, above = tape.gradient(loss, points)[:, 0].numpy()
    assert below == pytest.approx(above, rel=1e-4)


def test_what_deep_supervision_needs() -> None:
    with pytest.raises(UserError, match="answer at each position"):
        made(random_transformer())
    with pytest.raises(UserError, match="input_injection=none shows"):
        made(random_model(spec=ALIGNED, num_steps=2))
    injected = random_model(spec=ALIGNED, num_steps=2, input_injection="add")
    with pytest.raises(UserError, match="replace_by=q and q_continue_weight read"):
        made(injected)
    with pytest.raises(UserError, match="stablemax has no label_smoothing"):
        made(injected, replace_by="end", loss="stablemax", label_smoothing=0.1)


def test_the_value_of_going_on_is_that_of_one_more_step(model: Any) -> None:
    deep = made(model, q_continue_weight=0.5, supervision_steps=2, halt_exploration=0)
    carries = updates(deep, 2)
    for number in range(2):
        features, carry = batch(number), carries[number]
        sums, after = deep.sums(features, deep.counts(features, carry), carry)
        held = {"inputs": after["inputs"], "carry": after["carry"]}
        more = model(held, training=True, return_details=True)[1].encoder.q_values.numpy()
        target = np.where(after["steps"] == 2, more[:, 0], more.max(1))
        before = model(
            {"inputs": after["inputs"], "carry": carry["carry"], "fresh": carry["halted"]},
            training=True,
            return_details=True,
        )[1].encoder.q_values.numpy()
        p = 1 / (1 + np.exp(-target))
        own = 1 / (1 + np.exp(-before[:, 1]))
        expected = -0.5 * np.mean(p * np.log(own) + (1 - p) * np.log(1 - own))
        assert float(sums.losses["q_continue_loss"]) == pytest.approx(expected, rel=1e-4)
        halted = (before[:, 0] > before[:, 1]) | (after["steps"] == 2)
        np.testing.assert_array_equal(after["halted"], halted)


@pytest.mark.slow
@pytest.mark.parametrize("replace_by", ["random", "q"])
def test_two_replicas_hold_the_rows_of_one_device(replace_by: str, tmp_path: Path) -> None:
    sizes = "hidden_size=16,filter_size=24,num_heads=2,H_cycles=1,L_cycles=1,memory_tokens=1"
    deep = f"replace_by={replace_by},supervision_steps=3,eval_num_steps=2"

    def trained(replicas: int) -> tuple[Any, Any, list[Any]]:
        run = Run.create(
            "sudoku_4x4",
            "ut_trm_sudoku4",
            f"{sizes},{deep},batch_size={8 // replicas}",
            # The fourth batch is the last one of the epoch, and not full.
            problem_args={"train_puzzles": 29, "validation_puzzles": 2, "test_puzzles": 2},
            output_dir=str(tmp_path / f"run{replicas}"),
            data_dir=str(tmp_path / "data"),
            tmp_dir=str(tmp_path / "tmp"),
        )
        carried: list[Any] = []
        reports, weights = run_steps(run, 7, mirrored(replicas), carried)
        return [report.loss for report in reports], weights, carried

    (losses, weights, carried), (losses2, weights2, carried2) = trained(1), trained(2)
    np.testing.assert_allclose(losses2, losses, rtol=1e-6)
    for one, two in zip(weights, weights2, strict=True):
        np.testing.assert_allclose(two, one, rtol=1e-6, atol=1e-6 * np.abs(one).max())
    for one, two in zip(carried, carried2, strict=True):
        # Replica r has rows r B/2 to (r + 1) B/2.
        for name in ("inputs", "targets", "weight", "steps", "halted"):
            rows = np.concatenate(list(two[name]))
            np.testing.assert_array_equal(rows, np.concatenate(list(one[name])), err_msg=name)
        for mine, theirs in zip(one["carry"], two["carry"], strict=True):
            states = np.concatenate(list(theirs))
            assert_close(states, np.concatenate(list(mine)), 1e-5)
    assert len({int(steps) for each in carried for steps in np.ravel(each["steps"])}) == 3
