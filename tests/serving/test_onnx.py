"""Keras' export to ONNX, run by onnxruntime, where both are installed."""

from __future__ import annotations

from pathlib import Path

import keras
import numpy as np
import pytest

import ut_tf


def test_a_fixed_depth_gives_the_same_logits(tmp_path: Path) -> None:
    pytest.importorskip("tf2onnx")
    runtime = pytest.importorskip("onnxruntime")
    config = ut_tf.UniversalTransformerConfig(
        hidden_size=8, num_heads=2, filter_size=16, num_steps=2
    )
    model = ut_tf.UniversalTransformer(config, ut_tf.ProblemSpec("tokens", "class", 12, 4))
    path = tmp_path / "model.onnx"
    ids = {"inputs": keras.InputSpec(shape=(None, None), dtype="int32", name="inputs")}
    model.export(path, format="onnx", input_signature=[ids], verbose=False)
    session = runtime.InferenceSession(path)
    for shape in ((1, 3), (3, 7)):
        inputs = np.random.default_rng(0).integers(1, 12, shape, dtype=np.int32)
        inputs[0, 2:] = 0
        (logits,) = session.run(None, {"inputs": inputs})
        np.testing.assert_allclose(logits, model({"inputs": inputs}), atol=1e-5)
