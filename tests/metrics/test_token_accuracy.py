"""Accuracy without padding."""

from __future__ import annotations

import keras
import numpy as np

import ut_tf


def scores(labels: np.ndarray, classes: int = 5) -> np.ndarray:
    return np.eye(classes, dtype=np.float32)[labels]


def test_padding_does_not_count() -> None:
    labels = np.array([[3, 0, 0, 0, 0, 0]])
    wrong_symbol = scores(np.array([[2, 0, 0, 0, 0, 0]]))
    right_symbol = scores(np.array([[3, 1, 1, 1, 1, 1]]))
    assert float(ut_tf.metrics.TokenAccuracy(ignore_class=0)(labels, wrong_symbol)) == 0.0
    assert float(ut_tf.metrics.TokenAccuracy(ignore_class=0)(labels, right_symbol)) == 1.0
    assert np.isclose(
        float(ut_tf.metrics.TokenAccuracy(ignore_class=None)(labels, right_symbol)), 1 / 6
    )


def test_the_mean_is_over_symbols_of_all_batches() -> None:
    metric = ut_tf.metrics.TokenAccuracy()
    metric.update_state(np.array([[3, 0]]), scores(np.array([[3, 0]])))
    metric.update_state(np.array([[1, 2, 3]]), scores(np.array([[4, 4, 4]])))
    assert np.isclose(float(metric.result()), 1 / 4)
    metric.reset_state()
    assert float(metric.result()) == 0.0


def test_weights_of_examples_and_labels_with_an_axis_of_their_own() -> None:
    labels = np.array([[1, 2], [3, 0]])[..., None]
    metric = ut_tf.metrics.TokenAccuracy()
    metric.update_state(
        labels, scores(np.array([[1, 2], [4, 0]])), sample_weight=np.array([1.0, 6.0])
    )
    assert np.isclose(float(metric.result()), 2 / 8)


def test_fit_reports_what_is_computed_by_hand() -> None:
    ids = np.random.default_rng(0).integers(1, 5, [50, 4])
    ids[:, 2:] = 0
    model = keras.Sequential([keras.layers.Embedding(5, 5)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, metrics=[ut_tf.metrics.TokenAccuracy()], jit_compile=False)
    model.fit(ids, ids, batch_size=20, verbose=0)
    found = model.evaluate(ids, ids, batch_size=20, verbose=0, return_dict=True)["token_accuracy"]
    expected = (model.predict(ids, verbose=0).argmax(-1) == ids)[:, :2].mean()
    assert np.isclose(found, expected)
