"""Text of a problem as ids and back, by TensorFlow operations: the same code decodes lines of a
file and serves an exported model.

How it is used::

    codec = run.text_codec()
    features = codec.encode(tf.constant(["Ein Hund läuft."]))     # {"inputs": int32 [1, length]}
    texts = codec.decode(symbols)                                  # strings [1]

``errors`` and ``target_errors`` refuse what cannot be read. They are such operations, too: a line
of a file, a text in Python and a request to an exported model are refused alike.

A codec is a ``tf.Module``, so that the tables and models that it holds as attributes are saved with
an exported model.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

import tensorflow as tf

from ut_tf.data.chunks import chunks
from ut_tf.data.text.utf8 import readable
from ut_tf.errors import UserError
from ut_tf.symbols import END_ID, PADDING_ID

CHECKED_LINES = 256
"""Examples of a file that are looked at at once."""


class Board(NamedTuple):
    """The board whose cells are a problem's inputs, row by row.

    Fields:
      rows, columns: of cells.
      box_rows, box_columns: of the cells in a box, where boxes divide the board (Sudoku).
    """

    rows: int
    columns: int
    box_rows: int | None = None
    box_columns: int | None = None


class TextCodec(tf.Module):  # type: ignore[misc]
    """Turns raw text of a problem into features, and outputs into text. Subclasses implement
    encode_targets and decode, and encode where inputs are read in another way than targets.
    """

    fields: ClassVar[tuple[str, ...]] = ("inputs",)
    """Names of the raw texts of one example, in the order in which ``encode`` takes them (bAbI:
    story, question).
    """
    fields_of_lines: ClassVar[tuple[str, ...]] = ()
    """Those of ``fields`` whose lines are texts of their own, such as the sentences of a story."""
    end_token: ClassVar[str] = "<end>"
    """The text of END_ID in ``tokens`` and ``target_tokens``."""
    vocab_sizes: tuple[int, int] | None = None
    """Ids of the inputs, and ids or classes of the targets, where the codec knows them: they must
    be those of the trained model.
    """

    written: Any = None
    """The text of each id, strings [ids], where ``tokens`` writes one by one."""

    sample: str = ""
    """An input as a reader would type it; empty: none is known."""

    order: str = ""
    """The order of the symbols of inputs and targets, where it is not that of reading."""

    target_order: str = ""
    """The order of targets, where inputs have another."""

    board: Board | None = None
    """The board whose cells inputs are; None: they are no cells."""

    answer_end: int = PADDING_ID
    """The symbol of aligned targets that ends an answer, where it may be shorter than what inputs
    ask for.
    """

    def asked(self, inputs: Any) -> Any:
        """Whether aligned targets have an answer at each position of inputs int32 [batch, length],
        bool [batch, length]; default: at each symbol. The text of an answer is of these alone.
        """
        return tf.not_equal(inputs, PADDING_ID)

    def encode(self, *texts: Any) -> dict[str, Any]:
        """Returns the features of a batch of raw texts, {"inputs": int32 [batch, length]} (facts:
        [batch, rows, words]), padded with 0; default: as targets are encoded.

        Args:
          texts: strings [batch], one for each of ``fields``.

        Raises:
          UserError: there are no ``fields``.
        """
        if not self.fields:
            raise UserError("a language model has no inputs to encode: its texts are targets.")
        inputs = self.encode_targets(*texts)
        if inputs.shape.rank not in (None, 2):
            raise UserError(f"the targets of {type(self).__name__} are no sequences: add `encode`.")
        return {"inputs": inputs}

    def encode_targets(self, texts: Any) -> Any:
        """Returns int32 [batch, target_length] of strings [batch], each ended by END_ID and padded
        with 0; classes: int32 [batch].
        """
        raise NotImplementedError

    def decode(self, outputs: Any) -> Any:
        """Returns strings [batch] of symbols int32 [batch, length], up to the first END_ID or
        padding; or of classes int32 [batch].
        """
        raise NotImplementedError

    def errors(self, *texts: Any) -> Any:
        """Why each example of a batch cannot be read, strings [batch]: a sentence, without its
        point, of what it holds and what was expected; "" where it can. Default: all can be read.

        ``encode`` is given "" in place of the texts that are refused.

        Args:
          texts: strings [batch] in UTF-8, one for each of ``fields``.
        """
        return tf.zeros_like(texts[0])

    def errors_unless_blank(self, *texts: Any) -> Any:
        """``errors``, but for examples without any text, which are answered with nothing."""
        blank = tf.equal(tf.strings.strip(tf.strings.join(texts)), "")
        return tf.where(blank, "", self.errors(*texts))

    def target_errors(self, texts: Any) -> Any:
        """Why each target cannot be read, strings [batch], as ``errors`` does for inputs."""
        return tf.zeros_like(texts)

    def left_out(self, *texts: Any) -> Any:
        """The part of each example that ``encode`` leaves out, strings [batch]: the end of a
        sentence that begins with the example, such as "has 75 facts: the first 5 are left out"; ""
        where it leaves out nothing, which is the default.

        Args:
          texts: as of ``errors``.
        """
        return tf.zeros_like(texts[0])

    def tokens(self, features: dict[str, Any]) -> Any:
        """The symbol at each position of features["inputs"] or, of a language model,
        features["targets"], strings [batch, length]; "" on padding. Default: by ``written``, or
        as ``target_tokens``.
        """
        symbols = features["inputs" if self.fields else "targets"]
        if self.written is None:
            if type(self).target_tokens is TextCodec.target_tokens:
                raise UserError(f"{type(self).__name__} lacks `written` or `target_tokens`.")
            return self.target_tokens(symbols)
        return tf.gather(self.written, symbols)

    def target_tokens(self, symbols: Any) -> Any:
        """The symbol at each position of targets, strings [batch, length] of int32 [batch, length];
        "" on padding. By default what ``decode`` writes for each symbol alone.
        """
        alone = tf.reshape(symbols, [-1, 1])
        written = tf.reshape(self.decode(alone), tf.shape(symbols))
        return tf.where(tf.equal(symbols, END_ID), self.end_token, written)

    def input_text(self, tokens: Sequence[str]) -> str:
        """The lines that ``read`` takes for an example with these tokens: by default the tokens,
        without the end, with blanks between them.

        Args:
          tokens: of one example, without padding.
        """
        return " ".join(token for token in tokens if token != self.end_token)

    def word_list(self, texts: Any) -> tuple[Any, Any] | None:
        """The words of raw texts and whether the vocabulary has each, RaggedTensors [batch, words]
        of strings and bool; None, which is the default: texts have no words, but subwords or
        characters.

        Args:
          texts: strings [batch].
        """
        return None

    def words(self, texts: Iterable[str]) -> list[str]:
        """The words in raw texts, each once, sorted."""
        return self._distinct_words(texts, lambda is_known: tf.ones_like(is_known))

    def unknown_words(self, texts: Iterable[str]) -> list[str]:
        """The words in raw texts that the vocabulary lacks, each once, sorted."""
        return self._distinct_words(texts, tf.logical_not)

    @property
    def known_words(self) -> list[str]:
        """The words of the vocabulary; default: none, as of subwords and characters."""
        return []

    def examples_in(self, lines: Iterable[str], name: str) -> Iterator[tuple[int, tuple[str, ...]]]:
        """Yields the raw texts of each example in the lines of a file, and the number of the line
        with its last one: by default one example a line; of a problem without fields, a language
        model's, a prompt.

        Args:
          lines: of the file, without their ends.
          name: of the file, for messages.

        Raises:
          UserError: a line is not of the file's format; names file and line.
        """
        if len(self.fields) > 1:
            raise UserError(
                f"{name}: this problem reads {' and '.join(self.fields)}, not lines of text."
            )
        for count, line in enumerate(lines, start=1):
            yield count, (line,)

    def read(self, lines: Iterable[str], name: str) -> Iterator[tuple[str, ...]]:
        """Yields the raw texts of each example in the lines of a file.

        Args:
          lines: of the file, without their ends. Those of a list are checked many at once.
          name: of the file, for messages.

        Raises:
          UserError: a line is not what the problem's format says, or ``errors`` refuses its
            example; names file and line.
        """
        yield from self.check(self.examples_in(lines, name), name, _at_once(lines))

    def check(
        self, examples: Iterable[tuple[int, tuple[str, ...]]], name: str, at_once: int
    ) -> Iterator[tuple[str, ...]]:
        """Yields the raw texts of examples.

        Args:
          examples: the line of each, and its texts; of a language model prompts.
          name: of the file, for messages.
          at_once: how many are looked at before the first is yielded.

        Raises:
          UserError: ``errors`` refuses an example; names file and line.
        """
        errors = self.errors_unless_blank if self.fields else self.target_errors
        return _checked(examples, errors, name, at_once)

    def read_targets(self, lines: Iterable[str], name: str) -> Iterator[str]:
        """Yields the target text in each line, to be scored.

        Args:
          lines: one target each.
          name: of the file, for messages.

        Raises:
          UserError: a line is no target of the problem; names file and line.
        """
        targets = ((count, (line,)) for count, line in enumerate(lines, start=1))
        for (text,) in _checked(targets, self.target_errors, name, _at_once(lines)):
            yield text

    def _distinct_words(self, texts: Iterable[str], chosen: Callable[[Any], Any]) -> list[str]:
        found = self.word_list(string_tensor(dict.fromkeys(texts)))
        if found is None:
            return []
        words, is_known = found
        kept = tf.boolean_mask(words.flat_values, chosen(is_known.flat_values))
        return sorted(word.decode("utf-8") for word in tf.unique(kept)[0].numpy())


def string_tensor(texts: Iterable[str]) -> Any:
    """A tensor of strings [texts] in UTF-8, of texts that may not be ``readable``."""
    encoded = [readable(text).encode("utf-8") for text in texts]
    return tf.constant(encoded, tf.string, [len(encoded)])


def before_end(symbols: Any) -> Any:
    """Symbols [batch, length] of any integer type as int32, with 0 from the first END_ID or padding
    of each row on.

    Raises:
      UserError: they have another shape.
    """
    symbols = tf.cast(symbols, tf.int32)
    if symbols.shape.rank != 2:
        raise UserError(
            f"symbols of the shape {symbols.shape}: expected [batch, length]; give ids[None] for"
            " one text."
        )
    return symbols * tf.math.cumprod(tf.cast(symbols > END_ID, tf.int32), axis=1)


def append_ends(ids: Any) -> Any:
    """int32 [batch, length] of a RaggedTensor [batch, symbols]: each row ended by END_ID and padded
    with 0.
    """
    ends = tf.fill([ids.nrows(tf.int32), 1], END_ID)
    column = tf.RaggedTensor.from_tensor(ends, row_splits_dtype=ids.row_splits.dtype)
    return tf.concat([ids, column], 1).to_tensor()


def join_symbols(written: Any, outputs: Any, separator: str = " ") -> Any:
    """Strings [batch] of symbols int32 [batch, length], up to the first END_ID or padding.

    Args:
      written: what each id is written as, strings [ids].
      outputs: the symbols.
      separator: between them.
    """
    symbols = tf.gather(written, before_end(outputs))
    return tf.strings.strip(tf.strings.reduce_join(symbols, axis=1, separator=separator))


def _at_once(lines: Iterable[str]) -> int:
    # Whoever reads lines as they are typed waits for each.
    return CHECKED_LINES if isinstance(lines, Sequence) else 1


def _checked(
    rows: Iterable[tuple[int, tuple[str, ...]]], errors: Callable[..., Any], name: str, at_once: int
) -> Iterator[tuple[str, ...]]:
    for some in chunks(rows, at_once):
        columns = zip(*(texts for _, texts in some), strict=True)
        found = errors(*map(string_tensor, columns)).numpy()
        for (count, texts), error in zip(some, found, strict=True):
            if error:
                raise UserError(f"{name}, line {count}: {error.decode('utf-8')}; correct the line.")
            yield texts
