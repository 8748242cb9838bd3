"""A Keras model whose ``export`` knows the shapes of the model's inputs from its ProblemSpec."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras

from ut_tf.problem_spec import ProblemSpec


def export_signature(spec: ProblemSpec) -> list[dict[str, keras.InputSpec]]:
    """Returns the input signature of a model for `spec`: int32 ids, any batch size, any length.

    "inputs" are [batch, length] (tokens) or [batch, rows, max_words] (facts), and absent in a
    language model; "targets" are [batch, target_length], and absent in a classifier.
    """
    signature = {}
    if spec.inputs != "none":
        shape = (None, None, spec.max_words or None) if spec.inputs == "facts" else (None, None)
        signature["inputs"] = keras.InputSpec(shape=shape, dtype="int32", name="inputs")
    if spec.targets == "tokens":
        signature["targets"] = keras.InputSpec(shape=(None, None), dtype="int32", name="targets")
    return [signature]


class ExportableModel(keras.Model):  # type: ignore[misc]
    """A keras.Model with a ``spec``, called with the dictionary of features that the spec
    describes.

    Keras takes the default signature of ``export`` from the model's first call. These models are
    built when they are constructed, so Keras records no shapes, and the signature follows from the
    spec instead.
    """

    spec: ProblemSpec

    def export(
        self,
        filepath: str | Path,
        format: str = "tf_saved_model",
        verbose: bool | None = None,
        input_signature: Any = None,
        **kwargs: Any,
    ) -> None:
        """Exports the call in inference mode, from features to logits; arguments as for
        ``keras.Model.export``.

        Args:
          filepath: of the artifact.
          format: of the artifact.
          verbose: whether to print the endpoints.
          input_signature: of the call; None: the one of ``export_signature``, for any batch size
            and length.
          **kwargs: what else the format takes.
        """
        signature = export_signature(self.spec) if input_signature is None else input_signature
        super().export(
            filepath, format=format, verbose=verbose, input_signature=signature, **kwargs
        )
