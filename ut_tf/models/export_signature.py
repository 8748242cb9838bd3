"""The input signature with which Keras exports a model, from its ProblemSpec."""

from __future__ import annotations

import keras

from ut_tf.problem_spec import ProblemSpec


def export_signature(spec: ProblemSpec) -> list[dict[str, keras.InputSpec]]:
    """The signature of a model for `spec`: int32 ids, any batch size, any length.

    "inputs" are [batch, length] (tokens) or [batch, rows, max_words] (facts), and absent in a
    language model; "targets" are [batch, target_length], and absent where the model has no
    decoder.
    """
    signature = {}
    if spec.inputs != "none":
        shape = (None, None, spec.max_words or None) if spec.inputs == "facts" else (None, None)
        signature["inputs"] = keras.InputSpec(shape=shape, dtype="int32", name="inputs")
    if spec.targets == "tokens":
        signature["targets"] = keras.InputSpec(shape=(None, None), dtype="int32", name="targets")
    return [signature]
