"""Text of a translation problem as subword ids and back, in graph.

How it is used::

    codec = make_subword_codec(read_subwords(run.vocab_dir / "subwords.model"))
    # int32 [1, length], the last id END_ID
    codec.encode(tf.constant(["Ein Hund läuft."]))["inputs"]
    codec.decode(symbols)  # strings [batch]: plain text, blanks and punctuation in their places

How it works: tensorflow-text's SentencepieceTokenizer runs the model that ``subwords`` trained, so
an exported model takes and returns raw strings. Source and target share one vocabulary.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

import tensorflow as tf

from ut_tf.data.text.codec import TextCodec, append_ends, before_end
from ut_tf.data.text.subword_files import AnySubwords
from ut_tf.data.text.subwords import Subwords
from ut_tf.data.text.tensor2tensor_codec import Tensor2TensorCodec
from ut_tf.data.text.tensorflow_text import tensorflow_text
from ut_tf.symbols import END_ID, PADDING_ID

_BLANK = "▁"


def make_subword_codec(subwords: AnySubwords) -> TextCodec:
    """The codec of a vocabulary; errors as of its class."""
    if isinstance(subwords, Subwords):
        return TranslationCodec(subwords)
    return Tensor2TensorCodec(subwords)


class TranslationCodec(TextCodec):
    """Subwords of source and target.

    Args:
      subwords: the vocabulary.

    Raises:
      UserError: tensorflow-text is not installed.
    """

    end_token: ClassVar[str] = "</s>"

    def __init__(self, subwords: Subwords) -> None:
        super().__init__()
        self._tokenizer = tensorflow_text().SentencepieceTokenizer(
            model=subwords.model, out_type=tf.int32
        )
        self._shift = subwords.shift
        self.vocab_sizes = (subwords.size, subwords.size)

    def encode_targets(self, texts: Any) -> Any:
        """Returns int32 [batch, length]: the subwords of each of texts (strings [batch]), END_ID,
        padding.

        An empty text, or one of blanks alone, is END_ID alone.
        """
        pieces = self._tokenizer.tokenize(texts)
        return append_ends(pieces.with_flat_values(pieces.flat_values + self._shift))

    def decode(self, outputs: Any) -> Any:
        """Returns strings [batch] of symbols int32 [batch, length], up to the first END_ID or
        padding of each row.
        """
        symbols = before_end(outputs)
        kept = tf.ragged.boolean_mask(symbols - self._shift, symbols != PADDING_ID)
        return self._tokenizer.detokenize(kept)

    def target_tokens(self, symbols: Any) -> Any:
        """The pieces of symbols int32 [batch, length], strings [batch, length]: "▁" is a blank,
        "</s>" END_ID, "" padding.
        """
        pieces = self._tokenizer.id_to_string(tf.maximum(symbols - self._shift, 0))
        pieces = tf.where(tf.equal(symbols, END_ID), self.end_token, pieces)
        return tf.where(tf.equal(symbols, PADDING_ID), "", pieces)

    def input_text(self, tokens: Sequence[str]) -> str:
        """The sentence that the pieces make."""
        pieces = (token for token in tokens if token != self.end_token)
        return "".join(pieces).replace(_BLANK, " ").strip()
