"""Subword vocabularies in files: sentencepiece's models, and those of tensor2tensor.

::

    subwords = read_subwords(Path("subwords.model"))      # Subwords or Tensor2TensorSubwords
    subwords.size, subwords.encode(["Ein Hund läuft."])
"""

from __future__ import annotations

from pathlib import Path

from ut_tf.data.text.subwords import Subwords
from ut_tf.data.text.tensor2tensor_subwords import Tensor2TensorSubwords
from ut_tf.errors import UserError
from ut_tf.storage.files import MOST_VOCABULARY_BYTES, read_bounded

AnySubwords = Subwords | Tensor2TensorSubwords


def read_subwords(path: Path) -> AnySubwords:
    """The vocabulary in a file.

    Raises:
      UserError: the file cannot be read or holds no vocabulary.
    """
    try:
        content = read_bounded(path, MOST_VOCABULARY_BYTES)
    except OSError as error:
        raise UserError(
            f"the vocabulary {path} cannot be read ({error.strerror}): prepare the data with"
            " ut-datagen, or copy the file there."
        ) from error
    if Tensor2TensorSubwords.is_such(content):
        return Tensor2TensorSubwords(content, path)
    return Subwords(content, path)
