"""The memory network: its equations against numpy, which facts it reads, and what it refuses."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from tests.close import assert_close
from tests.search.models import random_model
from ut_tf.config.hparams import HParams
from ut_tf.errors import UserError
from ut_tf.models.memn2n.config import MemN2NConfig
from ut_tf.models.memn2n.hops import position_encoding
from ut_tf.models.memn2n.model import MemN2N
from ut_tf.problem_spec import ProblemSpec

SMALL: dict[str, Any] = {"hidden_size": 6, "num_steps": 3, "memory_size": 4}
FACTS = ProblemSpec("facts", "class", 12, 5, max_words=4)
# Two facts and a question; a question alone; more facts than the memory holds.
STORIES = np.zeros([3, 7, 4], np.int32)
STORIES[0, :3] = [[3, 4, 5, 0], [6, 7, 0, 0], [8, 9, 10, 11]]
STORIES[1, 0] = [2, 3, 0, 0]
STORIES[2] = np.random.default_rng(0).integers(2, 12, [7, 4])


def made(**changes: Any) -> MemN2N:
    model: MemN2N = random_model(MemN2N, FACTS, **{**SMALL, **changes})
    return model


def test_words_are_weighed_by_their_position_and_channel() -> None:
    present = np.array([[1, 1, 1, 0], [0, 0, 0, 0]], np.float32)
    expected = np.zeros([2, 4, 6])
    for word in (1, 2, 3):
        for channel in range(1, 7):
            expected[0, word - 1, channel - 1] = (1 - word / 3) - channel / 6 * (1 - 2 * word / 3)
    assert_close(position_encoding(present, 6), expected, 1e-6)


@pytest.mark.parametrize("tying", ["adjacent", "layerwise"])
def test_hops_are_those_of_the_equations(tying: str) -> None:
    model = made(hop_tying=tying)
    logits, details = model({"inputs": STORIES}, return_attention=True)
    for example, rows in enumerate(([0, 1, 2], [0], [2, 3, 4, 5, 6])):
        expected, weights = _answer(model, STORIES[example, rows])
        assert_close(logits[example], expected, 1e-5)
        assert_close(
            details.encoder.attention_weights[:, example, 0, 0].numpy()[:, rows[:-1]], weights, 1e-5
        )
        rest = np.delete(details.encoder.attention_weights[:, example].numpy(), rows[:-1], axis=-1)
        np.testing.assert_array_equal(rest, 0.0)


def _answer(model: MemN2N, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the logits of one story whose facts are all read, and the attention of each hop over
    them.
    """
    words, ages, joint = model.hops.words.numpy(), model.hops.ages.numpy(), model.hops.joint

    def sentence(row: np.ndarray, side: int) -> np.ndarray:
        spoken = row[row != 0]
        encoding = position_encoding(np.ones([len(spoken)], np.float32), 6).numpy()
        return (encoding * words[spoken, side]).sum(0)

    def memory(side: int) -> np.ndarray:
        count = len(rows) - 1
        return np.array(
            [sentence(rows[fact], side) + ages[count - 1 - fact, side] for fact in range(count)]
        ).reshape(count, 6)

    state, attention = sentence(rows[-1], 2 if joint else 0), []
    for hop in range(3):
        inputs, outputs = (memory(0), memory(1)) if joint else (memory(hop), memory(hop + 1))
        weights = np.exp(inputs @ state)
        weights = weights / weights.sum()
        state = (state @ joint.kernel.numpy() if joint else state) + weights @ outputs
        attention.append(weights)
    return state @ model.classifier.kernel.numpy(), np.array(attention)


def test_a_linear_start_has_no_softmax_until_it_is_put_in() -> None:
    model, plain = made(linear_start=7), made()
    _, details = model({"inputs": STORIES}, return_attention=True)
    rows = STORIES[0, [0, 1, 2]]
    words, ages = model.hops.words.numpy(), model.hops.ages.numpy()

    def sentence(row: np.ndarray, side: int) -> np.ndarray:
        spoken = row[row != 0]
        return (
            (position_encoding(np.ones([len(spoken)], np.float32), 6) * words[spoken, side])
            .numpy()
            .sum(0)
        )

    memory = np.array([sentence(rows[fact], 0) + ages[1 - fact, 0] for fact in range(2)])
    expected = memory @ sentence(rows[2], 0)
    assert_close(details.encoder.attention_weights[0, 0, 0, 0, :2], expected, 1e-5)

    plain.set_weights([weight for weight in model.get_weights() if weight.shape])
    assert [*model.changes()] == [7]
    model.changes()[7]()
    np.testing.assert_array_equal(model({"inputs": STORIES}), plain({"inputs": STORIES}))


def test_noise_on_the_memory_makes_facts_older_in_training_alone() -> None:
    model, plain = made(memory_noise=0.5, memory_size=40), made(memory_size=40)
    facts = np.tile(STORIES[2:, :1], [200, 7, 1])
    plain.set_weights([weight for weight in model.get_weights() if weight.dtype == np.float32])
    np.testing.assert_array_equal(model({"inputs": facts}), plain({"inputs": facts}))
    hops = model.hops
    _, age, question = (tensor.numpy() for tensor in hops._rows(facts, True))
    gaps = age[:, :5] - age[:, 1:6]
    assert set(gaps.ravel()) == {1, 2}
    assert 1.4 < gaps.mean() < 1.6
    np.testing.assert_array_equal(question, np.arange(7) == 6 + np.zeros([200, 1]))


def test_padding_and_batch_mates_change_nothing() -> None:
    model = made()
    padded = np.pad(STORIES, [(0, 0), (0, 3), (0, 2)])
    assert_close(model({"inputs": padded}), model({"inputs": STORIES}), 1e-6)
    assert_close(model({"inputs": STORIES[:1, :3]}), model({"inputs": STORIES})[:1], 1e-6)


def test_less_can_be_read_in_fewer_hops_at_evaluation() -> None:
    trained, used = made(), made(eval_memory_size=1, eval_num_steps=2)
    used.set_weights(trained.get_weights())
    np.testing.assert_array_equal(
        used({"inputs": STORIES}, training=True), trained({"inputs": STORIES})
    )
    _, details = used({"inputs": STORIES}, return_attention=True)
    np.testing.assert_array_equal(
        details.encoder.attention_weights[:, 2, 0, 0], [[0, 0, 0, 0, 0, 1, 0]] * 2
    )
    assert details.encoder.ponder_times[0].numpy().tolist() == [2, 2, 2, 0, 0, 0, 0]
    assert (
        made(hop_tying="layerwise", eval_num_steps=5)({"inputs": STORIES}, return_attention=True)[
            1
        ].encoder.attention_weights.shape[0]
        == 5
    )


@pytest.mark.slow
def test_it_learns_to_answer_from_the_latest_fact_about_someone() -> None:
    keras.utils.set_random_seed(0)
    draws = np.random.default_rng(0)
    people, places = draws.integers(2, 5, [1500, 4]), draws.integers(5, 9, [1500, 4])
    asked = draws.integers(2, 5, 1500)
    people[:, 0] = asked
    facts = np.stack([people, places], -1)
    inputs = np.concatenate(
        [facts, np.stack([asked, np.zeros_like(asked)], -1)[:, None]], 1
    ).astype(np.int32)
    latest = 3 - np.argmax((people == asked[:, None])[:, ::-1], 1)
    labels = np.take_along_axis(places, latest[:, None], 1)[:, 0] - 5
    model = MemN2N(
        MemN2NConfig(**{**SMALL, "hidden_size": 20, "num_steps": 2}),
        ProblemSpec("facts", "class", 12, 4, max_words=2),
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.01), loss, metrics=["accuracy"], jit_compile=False)
    history = model.fit({"inputs": inputs}, labels, batch_size=50, epochs=4, verbose=0).history
    assert history["accuracy"][-1] > 0.95


@pytest.mark.parametrize(
    "spec",
    [ProblemSpec("tokens", "class", 12, 5), ProblemSpec("facts", "tokens", 12, 12, max_words=4)],
)
def test_other_problems_are_refused(spec: ProblemSpec) -> None:
    with pytest.raises(UserError, match="answers questions on facts with a class"):
        MemN2N(MemN2NConfig(**SMALL), spec)


@pytest.mark.parametrize(
    ("change", "mistake"),
    [
        ({"eval_memory_size": 5}, "no temporal encoding for older facts"),
        ({"eval_num_steps": 4}, "an embedding of its own: use layerwise"),
    ],
)
def test_what_it_has_no_weights_for_is_refused(change: dict[str, Any], mistake: str) -> None:
    with pytest.raises(UserError, match=mistake):
        MemN2N(MemN2NConfig(**SMALL, **change), FACTS)
    with pytest.raises(UserError, match=mistake):
        HParams(model="memn2n").change(**SMALL, **change).resolve()
