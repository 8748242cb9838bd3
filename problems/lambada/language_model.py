"""LAMBADA as a language model: each word guessed from those before it, the last one judged."""

from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import tensorflow as tf

from ut_tf.data.corpus.encoded_pairs import pad_stretches
from ut_tf.data.example_table import ExampleTable
from ut_tf.errors import UserError
from ut_tf.problem_spec import ProblemSpec
from ut_tf.problems.lambada.codec import WordsCodec
from ut_tf.problems.lambada.corpus import LambadaSettings
from ut_tf.problems.lambada.passages import hide_last, number_unknown, windows
from ut_tf.problems.lambada.problem import EvaluateOn, LambadaProblem


class LambadaLM(LambadaProblem):
    """The passages' words, each guessed from those before it; trained on windows of the novels.

    Args:
      name, control, evaluate_on, train_files: as for LambadaProblem.
      tokenize: whether one's own training texts are running text, to be put in lower case and
        divided into words as LAMBADA's files are.
      vocab_size: words of the vocabulary at most: the most frequent ones of the vocabulary file or,
        without it, of the training text.
      min_books: of a vocabulary made from the training text: a word stands in at least that many
        books. A name that only one book has is an unknown word in every other book.
      unknown_words: how many different unknown words of a passage are told apart, by their order;
        0: all are one symbol.
      window: words in a training example.
    """

    method = "last_word"
    selection_metric: ClassVar[tuple[str, Literal["min", "max"]]] = ("target/loss", "min")  # type: ignore[misc]

    def __init__(
        self,
        name: str = "lambada_lm",
        control: bool = False,
        train_files: str = "",
        tokenize: bool = True,
        vocab_size: int = 60_000,
        min_books: int = 2,
        unknown_words: int = 20,
        window: int = 128,
        evaluate_on: EvaluateOn = "test",
    ) -> None:
        if window < 2:
            raise UserError(f"`window`={window}: expected at least 2 words.")
        super().__init__(
            name,
            control,
            LambadaSettings(vocab_size, unknown_words, min_books, tokenize),
            train_files,
            evaluate_on,
        )
        self._window = window

    def spec(self, data_dir: Path) -> ProblemSpec:
        """No inputs, words as targets."""
        return ProblemSpec(
            "none",
            "tokens",
            input_vocab_size=0,
            target_vocab_size=int(self._prepared(data_dir).summary["vocab_size"]),
        )

    def usual_spec(self) -> ProblemSpec:
        """Returns the size of the vocabulary that is asked for."""
        return ProblemSpec("none", "tokens", 0, self._settings.vocab_size)

    def examples(
        self, split: str, data_dir: Path, seed: int = 0, epoch: int = 0, length: int | None = None
    ) -> ExampleTable:
        """Returns {"targets": int32 [length]}, without an end symbol: windows of the novels, or
        whole passages.
        """
        texts = self._texts(split, data_dir)
        if split == "train":
            begins, lengths = windows(
                texts.starts, self._window, np.random.default_rng([seed % 2**63, epoch])
            )
        else:
            begins, lengths = texts.starts[:-1], np.diff(texts.starts)
        vocab_size = int(self._prepared(data_dir).summary["vocab_size"])
        unknown_words, judged = self._settings.unknown_words, split != "train"
        words = self._words(split, data_dir)
        first, sizes = tf.constant(begins, tf.int64), tf.constant(lengths, tf.int32)

        def batch(numbers: Any) -> dict[str, Any]:
            size = tf.gather(sizes, numbers)
            ids, fresh = number_unknown(
                pad_stretches(words, tf.gather(first, numbers), size), vocab_size, unknown_words
            )
            return {"targets": hide_last(ids, fresh, size) if judged else ids}

        return ExampleTable(lengths.astype(np.int32), batch)

    def text_codec(self, vocab_dir: Path) -> WordsCodec:
        """The codec of texts in LAMBADA's form, to be scored."""
        return WordsCodec(vocab_dir, self._settings.unknown_words)
