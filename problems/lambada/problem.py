"""LAMBADA: the last word of a passage, which follows from its broader context, as a language model
or read from the context.

How it is used::

    # DIR holds lambada-dataset.tar.gz
    ut-trainer --problem=lambada_lm --hparams_set=ut_lambada --tmp_dir=DIR
    ut-trainer --problem=lambada_lm --hparams_set=ut_lambada --tmp_dir=DIR \\
      # DIR: the development passages and other novels
      --problem_args=train_files=novels.tar.xz,evaluate_on=development
    # chooses among the words of the context
    ut-trainer --problem=lambada_rc --hparams_set=ut_lambada_rc --tmp_dir=DIR

How it works: ``lambada_archive`` reads the files, ``lambada_corpus`` keeps them as numbers,
``lambada_passages`` cuts windows and passages. Sources: Paperno et al. 2016 (arXiv 1606.06031);
reading: Chu et al. 2017 (arXiv 1610.08431).
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import tensorflow as tf

from ut_tf.data.problem import EvaluationSet, Problem
from ut_tf.data.table import ExampleTable, example_order
from ut_tf.errors import UserError
from ut_tf.problem_spec import ProblemSpec
from ut_tf.problems.lambada.archive import find_sources, find_texts, text_files
from ut_tf.problems.lambada.codec import PassageCodec, WordsCodec
from ut_tf.problems.lambada.corpus import UNKNOWN_ID, LambadaCorpus, LambadaSettings, Texts, fold_of
from ut_tf.problems.lambada.passages import (
    LEAST_CONTEXT,
    Passages,
    answerable,
    cut_passages,
    gathered,
    given_passages,
    hide_last,
    number_unknown,
    windows,
)
from ut_tf.symbols import END_ID

_FOLDER = "lambada"
# Passages judged at every evaluation during training: enough to tell checkpoints apart.
_VALIDATED = 500
_VALIDATION_FOLD_SHARE = 10
EvaluateOn = Literal["test", "development"]


class _Lambada(Problem):
    """What both forms share: files, vocabulary, prepared data.

    Args:
      name: the problem's name, for messages.
      control: whether the control passages are judged instead of the test passages.
      settings: what decides the prepared data.
      train_files: see the subclasses.
      evaluate_on: what ut-eval judges: the test passages, or the development passages where one has
        no others.
    """

    def __init__(
        self,
        name: str,
        control: bool,
        settings: LambadaSettings,
        train_files: str,
        evaluate_on: EvaluateOn,
    ) -> None:
        for argument, least in (("vocab_size", 1), ("unknown_words", 0), ("min_books", 1)):
            if getattr(settings, argument) < least:
                raise UserError(
                    f"`{argument}`={getattr(settings, argument)}: expected at least {least}."
                )
        if control and evaluate_on != "test":
            raise UserError(
                f"{name} judges the control passages: leave `evaluate_on`={evaluate_on} out, or"
                " take another problem."
            )
        self.name = name
        self._settings = settings
        self._train_files = train_files
        self._control = control
        self._evaluate_on = evaluate_on
        self._loaded: dict[tuple[Path, str], Texts] = {}
        self._tensors: dict[tuple[Path, str], Any] = {}

    def prepare(self, data_dir: Path, tmp_dir: Path) -> None:
        """Makes vocabulary and numbers, or returns at once where they are there.

        Raises:
          UserError: the files cannot be had or are not as they should be, or have changed since.
        """
        corpus = self._corpus(data_dir)
        corpus.prepared.make_once(lambda: self._make(corpus, tmp_dir))
        corpus.check(self._own_texts(tmp_dir))

    def vocab_files(self, data_dir: Path) -> list[Path]:
        """Returns words.txt, one symbol a line, from id 2 on."""
        return [self._corpus(data_dir).words_file]

    def data_note(self, data_dir: Path) -> str:
        """Returns which of the benchmark's parts were replaced: training text, vocabulary."""
        summary = self._prepared(data_dir).summary
        notes = []
        if summary["own_text"] and "train" in summary["splits"]:
            notes.append(f"trained on {summary['splits']['train']['texts']:,} other books")
        if summary["own_vocabulary"]:
            notes.append(f"vocabulary of {summary['words']:,} words made from the training text")
        return "; ".join(notes)

    def _corpus(self, data_dir: Path) -> LambadaCorpus:
        decides = json.dumps(
            [dataclasses.asdict(self._settings), self._train_files], sort_keys=True
        )
        return LambadaCorpus(data_dir / _FOLDER / hashlib.sha256(decides.encode()).hexdigest()[:8])

    def _make(self, corpus: LambadaCorpus, tmp_dir: Path) -> None:
        use_novels = self._settings.use_novels
        sources = find_sources(tmp_dir, self._train_files, self.name, use_novels)
        corpus.prepare(sources, self._settings, self.name)

    def _own_texts(self, tmp_dir: Path) -> list[Path]:
        """Returns the files of one's own training texts, none where they cannot be had: data that
        is prepared does not need them.
        """
        try:
            return text_files(find_texts(tmp_dir, self._train_files)) if self._train_files else []
        except (UserError, OSError):
            return []

    def _prepared(self, data_dir: Path) -> LambadaCorpus:
        corpus = self._corpus(data_dir)
        corpus.prepared.require(self, data_dir)
        return corpus

    def _texts(self, split: str, data_dir: Path) -> Texts:
        """Returns the texts of "train", "validation", or what the split "test" means here."""
        self.check_split(split)
        kept = "control" if split == "test" and self._control else split
        key = (data_dir, kept)
        if key not in self._loaded:
            corpus = self._prepared(data_dir)
            if kept not in corpus.summary["splits"]:
                raise UserError(
                    f"{self.name} was prepared in {corpus.folder} without the {kept} passages: put"
                    " them in the `tmp_dir` and delete that folder, or judge the development"
                    " passages (`split`=validation, or `evaluate_on`=development of the problem)."
                )
            self._loaded[key] = corpus.texts(kept)
        return self._loaded[key]

    def _words(self, split: str, data_dir: Path) -> Any:
        """Returns the words of ``_texts`` as a tensor, made once: the novels fill a good part of
        the memory.
        """
        key = (data_dir, split)
        if key not in self._tensors:
            self._tensors[key] = tf.constant(self._texts(split, data_dir).words, tf.int32)
        return self._tensors[key]

    def _judged(self) -> Literal["validation", "test"]:
        return "validation" if self._evaluate_on == "development" else "test"


class LambadaLM(_Lambada):
    """The passages' words, each guessed from those before it; trained on windows of the novels.

    Args:
      name, control, evaluate_on: as for _Lambada.
      train_files: folder or tar file of texts (*.txt) to train on instead of the archive's novels;
        a relative path is also looked for in the temporary directory and its folder lambada.
      tokenize: whether these are running text, to be put in lower case and divided into words as
        LAMBADA's files are.
      vocab_size: words of the vocabulary at most: the most frequent ones of the vocabulary file or,
        without it, of the training text.
      min_books: of a vocabulary made from the training text: a word stands in at least that many
        books. A name that only one book has is an unknown word in every other book.
      unknown_words: how many different unknown words of a passage are told apart, by their order;
        0: all are one symbol.
      window: words in a training example.
    """

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
        """Returns no inputs, words as targets."""
        return ProblemSpec(
            "none",
            "tokens",
            input_vocab_size=0,
            target_vocab_size=int(self._prepared(data_dir).summary["vocab_size"]),
        )

    def examples(
        self, split: str, data_dir: Path, seed: int = 0, epoch: int = 0, length: int | None = None
    ) -> ExampleTable:
        """Returns {"targets": int32 [length]}, without an end symbol: windows of the novels, or
        whole passages.
        """
        del length
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
                _rows(words, tf.gather(first, numbers), size), vocab_size, unknown_words
            )
            return {"targets": hide_last(ids, fresh, size) if judged else ids}

        return ExampleTable(lengths.astype(np.int32), batch)

    def evaluation_sets(self, lengths: tuple[int, ...] = ()) -> list[EvaluationSet]:
        """Returns the passages, their last word judged for itself; `lengths` means nothing here."""
        del lengths
        return [EvaluationSet(name="", split=self._judged(), method="last_word")]

    def validation_sets(self) -> list[EvaluationSet]:
        """Returns evenly spaced development passages, judged likewise."""
        return [
            EvaluationSet(name="", split="validation", method="last_word", max_examples=_VALIDATED)
        ]

    def text_codec(self, vocab_dir: Path) -> WordsCodec:
        """Returns the codec of texts in LAMBADA's form, to be scored."""
        return WordsCodec(vocab_dir, self._settings.unknown_words)


class LambadaRC(_Lambada):
    """The last sentence asks for its last word, which is chosen among the words of the sentences
    before it.

    Passages whose word does not stand there count as wrong when they are judged, and are not
    trained on.

    Args:
      name, control, evaluate_on, train_files, tokenize, vocab_size, min_books, unknown_words: as
      for LambadaLM.
      passages: how many passages are cut from the novels, evenly spaced over all that there are; 0:
        none, and no novels are needed.
      longest: words of such a passage at most.
      folds: cross-validation over the development passages: the split "test" is every `folds`-th of
        them, and the others are trained on beside the novels' passages (a tenth of them is the
        validation split); 0: none.
      fold: which of the folds is judged, from 1.
    """

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
        folds: int = 0,
        fold: int = 1,
        evaluate_on: EvaluateOn = "test",
    ) -> None:
        if passages < 0 or folds < 0 or folds == 1 or not 1 <= fold <= max(folds, 1):
            given = f"`passages`={passages}, `folds`={folds}, `fold`={fold}"
            raise UserError(
                f"{given}: expected no folds or at least 2, and a fold from 1 to folds."
            )
        if not passages and not folds:
            raise UserError(
                f"{name}: `passages`=0 and `folds`=0 leave nothing to train on; give passages of"
                " the novels, or folds."
            )
        if longest < LEAST_CONTEXT + 2:
            raise UserError(
                f"`longest`={longest}: expected at least {LEAST_CONTEXT + 2} words, a context of"
                f" {LEAST_CONTEXT} and a question."
            )
        if train_files and not passages:
            raise UserError(
                f"{name}: `passages`=0 trains on no novels: leave `train_files`={train_files} out,"
                " or give passages."
            )
        if folds and (control or evaluate_on != "test"):
            raise UserError(
                f"{name}: `folds`={folds} says what is judged: leave `evaluate_on` out, and use"
                " lambada_rc."
            )
        whole = LambadaSettings(vocab_size, unknown_words, min_books, tokenize)
        without = dataclasses.replace(whole, use_novels=False, folds=folds, fold=fold)
        super().__init__(name, control, whole if passages else without, train_files, evaluate_on)
        self._passages, self._longest, self._folds, self._fold = passages, longest, folds, fold
        self._tables: dict[tuple[Path, str], _PassageTable] = {}

    def spec(self, data_dir: Path) -> ProblemSpec:
        """Returns words in, one of them out."""
        size = int(self._prepared(data_dir).summary["vocab_size"])
        return ProblemSpec(
            "tokens", "word", input_vocab_size=size, target_vocab_size=size, shared_vocab=True
        )

    def examples(
        self, split: str, data_dir: Path, seed: int = 0, epoch: int = 0, length: int | None = None
    ) -> ExampleTable:
        """Returns {"inputs": int32 [length]: context, END_ID, question, END_ID; "targets": int32
        [], 0 for no word of the context}.
        """
        del length
        key = (data_dir, split)
        if key not in self._tables:
            size = int(self._prepared(data_dir).summary["vocab_size"])
            self._tables[key] = _PassageTable(
                *self._chosen(split, data_dir), size, self._settings.unknown_words
            )
        table = self._tables[key]
        return table.examples(example_order(split, len(table.lengths), seed, epoch))

    def evaluation_sets(self, lengths: tuple[int, ...] = ()) -> list[EvaluationSet]:
        """Returns the passages, all of them; `lengths` means nothing here."""
        del lengths
        return [EvaluationSet(name="", split=self._judged(), method="classify")]

    def validation_sets(self) -> list[EvaluationSet]:
        """Returns evenly spaced development passages."""
        return [
            EvaluationSet(name="", split="validation", method="classify", max_examples=_VALIDATED)
        ]

    def summarize(self, metrics: dict[str, float]) -> dict[str, float]:
        """Returns accuracy, the share of the passages answered rightly, from "error" (percent)."""
        return {"accuracy": 1.0 - metrics["error"] / 100.0} if "error" in metrics else {}

    def text_codec(self, vocab_dir: Path) -> PassageCodec:
        """Returns the codec of contexts and questions in LAMBADA's form."""
        return PassageCodec(vocab_dir, self._settings.unknown_words)

    def data_note(self, data_dir: Path) -> str:
        """Returns what was replaced, as for LambadaLM, and the fold."""
        note = super().data_note(data_dir)
        fold = f"fold {self._fold} of {self._folds} of the development set" if self._folds else ""
        return "; ".join(filter(None, (fold, note)))

    def _chosen(self, split: str, data_dir: Path) -> tuple[list[Texts], list[Passages]]:
        """Returns the texts of a split's passages, and the passages of each."""
        words = self._prepared(data_dir).words()
        if not self._folds and split != "train":
            texts = self._texts(split, data_dir)
            return [texts], [given_passages(texts, words)]
        parts: list[tuple[Texts, Passages]] = []
        if self._folds:
            development = self._texts("validation", data_dir)
            given = given_passages(development, words)
            chosen = given.taken(np.flatnonzero(self._part(development) == split))
            parts.append(
                (development, answerable(development, chosen) if split == "train" else chosen)
            )
        if split == "train" and self._passages:
            novels = self._texts("train", data_dir)
            cut = cut_passages(novels, words, self._longest)
            some = (
                np.arange(min(self._passages, len(cut)), dtype=np.int64)
                * len(cut)
                // max(min(self._passages, len(cut)), 1)
            )
            parts.append(gathered(novels, cut.taken(some)))
        return [texts for texts, _ in parts], [passages for _, passages in parts]

    def _part(self, passages: Texts) -> Any:
        """Returns the split of each development passage under cross-validation, strings
        [passages].
        """
        folds = fold_of(passages, self._folds)
        parts = np.where(folds == self._fold, "test", "train").astype(object)
        others = np.flatnonzero(parts == "train")
        parts[others[::_VALIDATION_FOLD_SHARE]] = "validation"
        return parts


class _PassageTable:
    """The examples of a split for reading.

    Args:
      texts: whose words the passages are cut from.
      passages: of each of the texts.
      vocab_size, unknown_words: as for ``number_unknown``.
    """

    def __init__(
        self, texts: list[Texts], passages: list[Passages], vocab_size: int, unknown_words: int
    ) -> None:
        self._vocab_size, self._unknown_words = vocab_size, unknown_words
        self._words = tf.concat([tf.constant(one.words, tf.int32) for one in texts], 0)
        offsets = np.cumsum([0, *(len(one.words) for one in texts)])[:-1]
        self._places = [
            np.concatenate(
                [
                    getattr(some, side) + offset
                    for some, offset in zip(passages, offsets, strict=True)
                ]
            )
            for side in ("starts", "questions", "answers")
        ]
        starts, _, answers = self._places
        # One symbol ends the context, one the question.
        self.lengths = (answers - starts + 2).astype(np.int32)

    def examples(self, order: Any) -> ExampleTable:
        """Returns them in an order: int [passages]."""
        starts, questions, answers = (
            tf.constant(places[order], tf.int64) for places in self._places
        )

        def batch(numbers: Any) -> dict[str, Any]:
            start, question, answer = (
                tf.gather(places, numbers) for places in (starts, questions, answers)
            )
            context, asked = tf.cast(question - start, tf.int32), tf.cast(answer - start, tf.int32)
            # The answer is the last word of a row, and numbered with the others.
            ids, _ = number_unknown(
                _rows(self._words, start, asked + 1), self._vocab_size, self._unknown_words
            )
            return passage_features(ids, context, asked)

        return ExampleTable(self.lengths[order], batch)


def passage_features(ids: Any, context: Any, asked: Any) -> dict[str, Any]:
    """Returns the features of passages.

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


def _rows(words: Any, begin: Any, size: Any) -> Any:
    """Returns int32 [batch, length], the `size` words from `begin` on in each row, and zeros
    behind.
    """
    columns = tf.range(tf.reduce_max(size))[tf.newaxis]
    inside = columns < size[:, tf.newaxis]
    places = tf.where(inside, begin[:, tf.newaxis] + tf.cast(columns, tf.int64), 0)
    return tf.where(inside, tf.gather(words, places), 0)
