"""An exported model in the server's process."""

from __future__ import annotations

from pathlib import Path

import pytest
import tensorflow as tf

from ut_tf.errors import UserError
from ut_tf.serving.served_model import ServedModel


def test_a_model_that_cannot_run_is_told_when_it_is_loaded(tmp_path: Path) -> None:
    function = tf.function(
        lambda inputs: {"outputs": tf.strings.to_number(inputs)},
        input_signature=[tf.TensorSpec([None], tf.string, "inputs")],
    )
    tf.saved_model.save(tf.Module(), str(tmp_path), signatures=function)
    with pytest.raises(UserError, match=r"\(signature serving_default: StringToNumber.*1 2 3"):
        ServedModel(tmp_path, 1)
