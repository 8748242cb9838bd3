"""LAMBADA as reading: the last sentence of a passage asks for its last word, which is chosen among
the words of the context (Chu et al. 2017, arXiv 1610.08431).
"""

from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import tensorflow as tf

from ut_tf.data.arguments import at_least
from ut_tf.data.batch_plan import evenly_spaced
from ut_tf.data.corpus.encoded_pairs import pad_stretches
from ut_tf.data.example_table import ExampleTable, example_order
from ut_tf.errors import UserError
from ut_tf.problem_spec import ProblemSpec
from ut_tf.problems.lambada.codec import PassageCodec
from ut_tf.problems.lambada.corpus import UNKNOWN_ID, LambadaSettings, Texts
from ut_tf.problems.lambada.passages import (
    LEAST_CONTEXT,
    Passages,
    cut_passages,
    gather_words,
    given_passages,
    number_unknown,
)
from ut_tf.problems.lambada.problem import EvaluateOn, LambadaProblem
from ut_tf.symbols import END_ID


class LambadaRC(LambadaProblem):
    """The last sentence asks for its last word, which is chosen among the words of the sentences
    before it.

    Passages whose word does not stand there count as wrong when they are judged, and are not
    trained on.

    Args:
      name, control, evaluate_on, train_files: as for LambadaProblem.
      tokenize: whether one's own training texts are running text, to be put in lower case and
        divided into words.
      vocab_size: words of the vocabulary at most, the most frequent ones.
      min_books: of a vocabulary made from the training text: a word stands in at least that many
        books.
      unknown_words: how many different unknown words of a passage are told apart, by their order;
        0: all are one symbol.
      passages: how many passages are cut from the novels, evenly spaced over all that there are.
      longest: words of such a passage at most.
    """

    method = "classify"
    selection_metric: ClassVar[tuple[str, Literal["min", "max"]]] = ("error", "min")  # type: ignore[misc]

    def __init__(
        self,
        name: str = "lambada_rc",
        control: bool = False,
        train_files: str = "",
        tokenize: bool = True,
        vocab_size: int = 60_000,
        min_books: int = 2,
        unknown_words: int = 20,
        passages: int = 200_000,
        longest: int = 200,
        evaluate_on: EvaluateOn = "test",
    ) -> None:
        at_least(1, "passages", passages)
        if longest < LEAST_CONTEXT + 2:
            raise UserError(
                f"`longest`={longest}: expected at least {LEAST_CONTEXT + 2} words, a context of"
                f" {LEAST_CONTEXT} and a question."
            )
        settings = LambadaSettings(vocab_size, unknown_words, min_books, tokenize)
        super().__init__(name, control, settings, train_files, evaluate_on)
        self._passages, self._longest = passages, longest
        self._tables: dict[tuple[Path, str], _PassageTable] = {}

    def spec(self, data_dir: Path) -> ProblemSpec:
        """Returns words in, one of them out."""
        size = int(self._prepared(data_dir).summary["vocab_size"])
        return ProblemSpec("tokens", "word", size, size, shared_vocab=True)

    def usual_spec(self) -> ProblemSpec:
        """Returns the size of the vocabulary that is asked for."""
        size = self._settings.vocab_size
        return ProblemSpec("tokens", "word", size, size, shared_vocab=True)

    def examples(
        self, split: str, data_dir: Path, seed: int = 0, epoch: int = 0, length: int | None = None
    ) -> ExampleTable:
        """Returns {"inputs": int32 [length]: context, END_ID, question, END_ID; "targets": int32
        [], 0 for no word of the context}.
        """
        key = (data_dir, split)
        if key not in self._tables:
            size = int(self._prepared(data_dir).summary["vocab_size"])
            self._tables[key] = _PassageTable(
                *self._chosen(split, data_dir), size, self._settings.unknown_words
            )
        table = self._tables[key]
        return table.examples(example_order(split, len(table.lengths), seed, epoch))

    def summarize(self, metrics: dict[str, float]) -> dict[str, float]:
        """Accuracy, the share of the passages answered rightly, from "error" (percent)."""
        return {"accuracy": 1.0 - metrics["error"] / 100.0} if "error" in metrics else {}

    def summarize_intervals(
        self, intervals: dict[str, tuple[float, float]]
    ) -> dict[str, tuple[float, float]]:
        """The interval of accuracy, from that of "error"."""
        if "error" not in intervals:
            return {}
        low, high = intervals["error"]
        return {"accuracy": (1.0 - high / 100.0, 1.0 - low / 100.0)}

    def text_codec(self, vocab_dir: Path) -> PassageCodec:
        """The codec of contexts and questions in LAMBADA's form."""
        return PassageCodec(vocab_dir, self._settings.unknown_words)

    def _chosen(self, split: str, data_dir: Path) -> tuple[Texts, Passages]:
        """The texts that a split's passages are cut from, and the passages."""
        words, texts = self._prepared(data_dir).words(), self._texts(split, data_dir)
        if split != "train":
            return texts, given_passages(texts, words)
        cut = cut_passages(texts, words, self._longest)
        return gather_words(texts, cut.taken(evenly_spaced(len(cut), self._passages)))


class _PassageTable:
    """The examples of a split for reading.

    Args:
      texts: whose words the passages are cut from.
      passages: of the texts.
      vocab_size, unknown_words: as for ``number_unknown``.
    """

    def __init__(
        self, texts: Texts, passages: Passages, vocab_size: int, unknown_words: int
    ) -> None:
        self._vocab_size, self._unknown_words = vocab_size, unknown_words
        self._words = tf.constant(texts.words, tf.int32)
        self._passages = passages
        # One symbol ends the context, one the question.
        self.lengths = (passages.answers - passages.starts + 2).astype(np.int32)

    def examples(self, order: Any) -> ExampleTable:
        """The passages in an order: int [passages]."""
        chosen = self._passages.taken(order)
        starts, questions, answers = (
            tf.constant(places, tf.int64)
            for places in (chosen.starts, chosen.questions, chosen.answers)
        )

        def batch(numbers: Any) -> dict[str, Any]:
            start, question, answer = (
                tf.gather(places, numbers) for places in (starts, questions, answers)
            )
            context, asked = tf.cast(question - start, tf.int32), tf.cast(answer - start, tf.int32)
            # The answer is the last word of a row, and numbered with the others.
            ids, _ = number_unknown(
                pad_stretches(self._words, start, asked + 1), self._vocab_size, self._unknown_words
            )
            return passage_features(ids, context, asked)

        return ExampleTable(self.lengths[order], batch)


def passage_features(ids: Any, context: Any, asked: Any) -> dict[str, Any]:
    """The features of passages.

    Args:
      ids: int32 [batch, length], from ``number_unknown``: context, question, and the answer, which
        stands at `asked`.
      context: int32 [batch], words of the context.
      asked: int32 [batch], words of context and question.

    Returns:
      "inputs" int32 [batch, length + 1] and "targets" int32 [batch], 0 where the answer is not
      among the words of the context.
    """
    places = tf.range(tf.shape(ids)[1] + 1)[tf.newaxis]
    begin, end = context[:, tf.newaxis], asked[:, tf.newaxis]
    source = tf.where(places <= begin, places, places - 1)
    words = tf.gather(ids, tf.minimum(source, tf.shape(ids)[1] - 1), batch_dims=1)
    inputs = tf.where(
        tf.equal(places, begin) | tf.equal(places, end + 1),
        END_ID,
        tf.where(places <= end, words, 0),
    )
    answer = tf.gather(ids, asked, batch_dims=1)
    stands = tf.reduce_any(tf.equal(inputs, answer[:, tf.newaxis]) & (places < begin), axis=1)
    return {
        "inputs": inputs,
        "targets": tf.where(stands & tf.not_equal(answer, UNKNOWN_ID), answer, 0),
    }
