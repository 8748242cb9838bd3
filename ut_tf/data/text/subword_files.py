"""Subword vocabularies in files: sentencepiece's models, and those of tensor2tensor.

::

    subwords = read_subwords(Path("subwords.model"))      # Subwords or Tensor2TensorSubwords
    subwords.size, subwords.encode(["Ein Hund läuft."])
"""

from pathlib import Path

import numpy as np
import numpy.typing as npt

from ut_tf.data.text.subwords import Subwords
from ut_tf.data.text.tensor2tensor_subwords import Tensor2TensorSubwords
from ut_tf.errors import file_errors
from ut_tf.notices import warn
from ut_tf.storage.files import read_vocabulary

AnySubwords = Subwords | Tensor2TensorSubwords
# Of the symbols of a text. Emoji and rare scripts in a text of another script stay far below.
_MUCH_SPELLED = 0.2


def read_subwords(path: Path) -> AnySubwords:
    """The vocabulary in a file.

    Raises:
      UserError: the file cannot be read or holds no vocabulary.
    """
    advice = "prepare the data with ut-datagen, or copy the file there"
    with file_errors(f"the vocabulary {path}", advice):
        content = read_vocabulary(path)
    if Tensor2TensorSubwords.is_such(content):
        return Tensor2TensorSubwords(content, path)
    return Subwords(content, path)


def warn_of_other_text(subwords: AnySubwords, ids: npt.NDArray[np.integer], text: str) -> None:
    """Warns where a vocabulary was made for another text than this.

    Args:
      subwords: the vocabulary.
      ids: of the text.
      text: what it is, for the message.
    """
    share = float(np.isin(ids, [*subwords.spelled]).mean()) if len(ids) else 0.0
    if share > _MUCH_SPELLED:
        warn(
            f"{share:.0%} of the symbols of {text} are single bytes or unknown: the vocabulary"
            " was made for other text; give one of this text, or text of that language."
        )
