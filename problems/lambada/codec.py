"""LAMBADA as text: lower-case words with blanks between them (``tokens.treebank_tokens``).

How it is used::

    WordsCodec(vocab_dir, unknown_words=20)      # a language model's: texts are scored
    codec = PassageCodec(vocab_dir, unknown_words=20)
    # lines of context, tab, question; the answer is a word
    for context, question in codec.read(open("passages.txt"), "passages.txt"): ...

Unknown words are numbered inside each text, as in training; one that the model chooses is written
as "<unknown-2>", the second word of the passage that the vocabulary lacks.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import tensorflow as tf

from ut_tf.data.text.codec import TextCodec, join_symbols
from ut_tf.data.text.refusals import quoted, text_where
from ut_tf.data.text.vocabulary import BLANK, read_symbols, symbol_table
from ut_tf.errors import UserError
from ut_tf.problems.lambada.corpus import WORDS_FILE
from ut_tf.problems.lambada.passages import number_unknown
from ut_tf.symbols import END_ID, FIRST_SYMBOL_ID

_HASHED = 2**30


class _Words(tf.Module):  # type: ignore[misc]
    """Words to numbers as ``LambadaCorpus`` has them, unknown ones by hash, and ids to words."""

    def __init__(self, vocab_dir: Path) -> None:
        super().__init__(name="lambada_words")
        symbols = read_symbols(vocab_dir / WORDS_FILE)
        self.size = FIRST_SYMBOL_ID + len(symbols)
        self._table = symbol_table(symbols, FIRST_SYMBOL_ID, -1)
        self.written = tf.constant(["", TextCodec.end_token, *symbols])

    def known(self, words: Any) -> Any:
        """The ids of `words` (strings of any shape), int32; -1 for unknown ones."""
        return tf.cast(self._table.lookup(words), tf.int32)

    def numbers(self, texts: Any) -> Any:
        """Returns the numbers of the words of `texts` (strings [batch]): a RaggedTensor int32
        [batch, words].
        """
        words = tf.strings.split(
            tf.strings.regex_replace(tf.strings.lower(texts, encoding="utf-8"), BLANK, " ")
        )
        flat = words.flat_values
        known = self.known(flat)
        unknown = self.size + tf.cast(tf.strings.to_hash_bucket_fast(flat, _HASHED), tf.int32)
        return words.with_flat_values(tf.where(known < 0, unknown, known))


class WordsCodec(TextCodec):
    """The text form of ``LambadaLM``, which has no inputs.

    Args:
      vocab_dir: holds words.txt.
      unknown_words: as for the problem.

    Raises:
      UserError: the vocabulary is missing or empty.
    """

    fields: ClassVar[tuple[str, ...]] = ()

    def __init__(self, vocab_dir: Path, unknown_words: int) -> None:
        super().__init__(name="words_codec")
        self._words = _Words(vocab_dir)
        self._unknown_words = unknown_words
        self.vocab_sizes = (0, self._words.size)
        self.written = self._words.written

    def encode_targets(self, texts: Any) -> Any:
        """Returns int32 [batch, length] of strings [batch], padded with 0; no end symbol, which the
        model never saw.
        """
        return number_unknown(
            self._words.numbers(texts).to_tensor(), self._words.size, self._unknown_words
        )[0]

    def decode(self, outputs: Any) -> Any:
        """Returns strings [batch] of symbols int32 [batch, length], up to the first END_ID or
        padding, with blanks between the words.
        """
        return join_symbols(self.written, outputs)


class PassageCodec(TextCodec):
    """The text form of ``LambadaRC``.

    Args:
      vocab_dir, unknown_words: as for WordsCodec.

    Raises:
      UserError: the vocabulary is missing or empty.
    """

    fields: ClassVar[tuple[str, ...]] = ("context", "question")

    def __init__(self, vocab_dir: Path, unknown_words: int) -> None:
        super().__init__(name="passage_codec")
        self._words = _Words(vocab_dir)
        self._unknown_words = unknown_words
        self.vocab_sizes = (self._words.size, self._words.size)
        self.written = self._words.written

    def encode(self, *texts: Any) -> dict[str, Any]:
        """Returns {"inputs": int32 [batch, length]}: the context's words, END_ID, the question's
        words, END_ID, padded with 0.

        Args:
          texts: contexts and questions, strings [batch] each.
        """
        contexts, questions = (self._words.numbers(text) for text in texts)
        ends = tf.RaggedTensor.from_tensor(tf.fill([tf.shape(texts[0])[0], 1], END_ID))
        words = tf.concat([contexts, ends, questions, ends], 1).to_tensor()
        return {"inputs": number_unknown(words, self._words.size, self._unknown_words)[0]}

    def encode_targets(self, texts: Any) -> Any:
        """Returns the ids int32 [batch] of answers, strings [batch]; -1: not in the vocabulary."""
        return self._words.known(tf.strings.lower(tf.strings.strip(texts), encoding="utf-8"))

    def decode(self, outputs: Any) -> Any:
        """Returns the words, strings [batch], of ids int32 [batch]."""
        return tf.gather(self.written, tf.cast(outputs, tf.int32))

    def input_text(self, tokens: Sequence[str]) -> str:
        """The context, a tab and the question."""
        context, _, question = " ".join(tokens).partition(f" {self.end_token} ")
        return f"{context}\t{question.removesuffix(self.end_token).strip()}"

    def errors(self, *texts: Any) -> Any:
        """Refuses a context or a question without a word beside the other."""
        has_context, has_question = (self._words.numbers(text).row_lengths() > 0 for text in texts)
        told = ["a context of ", quoted(texts[0]), " and a question of ", quoted(texts[1])]
        sentence = tf.strings.join([*told, ": expected words in both"])
        return text_where(has_context != has_question, sentence)

    def examples_in(self, lines: Iterable[str], name: str) -> Iterator[tuple[int, tuple[str, ...]]]:
        """Yields the number of each line, and (context, question).

        Raises:
          UserError: names the file and the line that is not a context, a tab and a question.
        """
        for number, line in enumerate(lines, start=1):
            # An empty line has an answer of its own, which is empty.
            parts = line.split("\t") if line.strip() else ["", ""]
            if len(parts) != 2:
                raise UserError(
                    f"{name}, line {number}: {line.strip()[:80]!r}: expected a context, a tab and a"
                    " question; correct the line."
                )
            yield number, (parts[0], parts[1])
