"""The input signature with which Keras exports a model, from its ProblemSpec."""

import keras

from ut_tf.problem_spec import ProblemSpec


def export_signature(spec: ProblemSpec, num_puzzles: int = 0) -> list[dict[str, keras.InputSpec]]:
    """The signature of a model for `spec`: int32 ids, any batch size, any length.

    "inputs" are [batch, length] (tokens) or [batch, rows, max_words] (facts), and absent in a
    language model; "targets" are [batch, target_length], and absent where the model has no
    decoder; "puzzles" are [batch], of a model with a memory for each of several (`num_puzzles`).
    """
    signature = {}
    if spec.inputs != "none":
        shape = (None, None, spec.max_words or None) if spec.inputs == "facts" else (None, None)
        signature["inputs"] = keras.InputSpec(shape=shape, dtype="int32", name="inputs")
    if spec.targets == "tokens":
        signature["targets"] = keras.InputSpec(shape=(None, None), dtype="int32", name="targets")
    if num_puzzles > 1:
        signature["puzzles"] = keras.InputSpec(shape=(None,), dtype="int32", name="puzzles")
    return [signature]
