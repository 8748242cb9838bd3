"""Translation: what all corpora share, from a prepared corpus to examples, codec and raw text.

A subclass says where its pairs come from and what they are called; the vocabulary, shared by both
languages, is trained on its training text, or given as a file (a sentencepiece model, or a
vocabulary of tensor2tensor). Inputs and targets end with 1.

How it works: ``ut_tf.data.corpus.corpus`` prepares ids in a folder whose name follows from
everything that decides them. A problem and its reverse share that folder: the sides change places
when they are read.
"""

import functools
import hashlib
import json
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from ut_tf.data.arguments import at_least
from ut_tf.data.corpus.corpus import VOCAB_FILE, Corpus, CorpusSettings
from ut_tf.data.corpus.encoded_pairs import EncodedExamples, pair_pool
from ut_tf.data.corpus.encoding import Filters, Pair
from ut_tf.data.corpus.subword_dropout import split_pairs_at_random, subword_parts
from ut_tf.data.example_pools import LARGEST_TABLE, ExamplePools, deal_shards
from ut_tf.data.example_table import ExampleTable, example_order
from ut_tf.data.problem import EvaluationSet, Problem
from ut_tf.data.text.codec import TextCodec
from ut_tf.data.text.subword_codec import make_subword_codec
from ut_tf.data.text.subword_files import read_subwords
from ut_tf.data.text.subwords import SubwordKind, SubwordOptions, check_kind
from ut_tf.errors import UserError
from ut_tf.paths import expanded
from ut_tf.problem_spec import ProblemSpec

_FOLDER = "translation"
# Sentences translated at every evaluation during training: enough to tell checkpoints apart.
_VALIDATED = 500


class TranslationOptions(SubwordOptions, total=False):
    """The arguments that all problems of translation have; defaults are those of ``Translation``.

    Args:
      max_characters: training pairs with a longer line are left out; 0: none.
      max_length_ratio: training pairs with one side more than so many times as long as the other,
        in subwords, are left out; 0: none.
      subword_dropout: the probability with which a subword of a training pair is split into the
        two that it was merged from, anew in every epoch; 0: none. Byte pair encoding only.
      reverse: whether sources and targets change places.
      processes: how many encode a large corpus at once; 0: one for each core.
      beam_pipeline_options: "name=value,name=value": Apache Beam encodes instead, with these
        options; empty: it does not.
    """

    max_characters: int
    max_length_ratio: float
    subword_dropout: float
    reverse: bool
    processes: int
    beam_pipeline_options: str


class Translation(Problem):
    """Sentences and their translations, as subwords.

    Args:
      name: the problem's name, for messages.
      corpus_name: beginning of the name of the folder with the prepared data.
      default_vocab_size: where `vocab_size` is 0; a small text may then support fewer subwords.
      others: as of ``TranslationOptions``.
      exact: whether a training text that supports fewer subwords than `vocab_size` is an error;
        otherwise the vocabulary is smaller.
      fitted: whether the vocabulary of a small text is smaller than what the text supports.
      disjoint: whether pairs with a side that is held out for validation are not trained on,
        however it is written.
    """

    file_arguments: ClassVar[Mapping[str, Literal["file", "files"]]] = {"vocab_file": "file"}

    def __init__(
        self,
        name: str,
        corpus_name: str,
        default_vocab_size: int,
        vocab_size: int = 0,
        subword_model: SubwordKind = "bpe",
        vocab_file: str = "",
        max_characters: int = 10_000,
        max_length_ratio: float = 9.0,
        subword_dropout: float = 0.0,
        reverse: bool = False,
        processes: int = 0,
        beam_pipeline_options: str = "",
        exact: bool = True,
        fitted: bool = False,
        disjoint: bool = False,
    ) -> None:
        at_least(0, "vocab_size", vocab_size)
        at_least(0, "max_characters", max_characters)
        at_least(0, "processes", processes)
        if max_length_ratio < 0:
            raise UserError(f"`max_length_ratio`={max_length_ratio}: expected at least 0.")
        if not 0 <= subword_dropout < 1:
            raise UserError(f"`subword_dropout`={subword_dropout:g}: expected from 0 to below 1.")
        check_kind(subword_model)
        if subword_dropout and subword_model != "bpe" and not vocab_file:
            raise UserError(
                f"`subword_dropout`={subword_dropout:g}: expected 0 with"
                f" `subword_model`={subword_model}; give `subword_model`=bpe, or leave it out."
            )
        self.name = name
        self.selection_metric = ("bleu", "max")
        self.reverse = reverse
        self._subword_dropout = subword_dropout
        self._corpus_name = corpus_name
        self._processes = processes
        self._beam_options = beam_pipeline_options
        self.vocab_file = str(expanded(vocab_file).absolute()) if vocab_file else ""
        self._settings = CorpusSettings(
            vocab_size=vocab_size or default_vocab_size,
            exact=exact and vocab_size > 0,
            fitted=fitted,
            disjoint=disjoint,
            sized=vocab_size > 0,
            subword_model=subword_model,
            vocab_file=self.vocab_file,
            filters=Filters(max_characters, max_length_ratio),
        )
        self._tables: dict[tuple[Path, str], EncodedExamples] = {}

    @abstractmethod
    def pairs(self, data_dir: Path, tmp_dir: Path) -> Mapping[str, Iterable[Pair]]:
        """The pairs of "train" and, if any, "validation" and "test"; finds or downloads them."""

    def files(self, tmp_dir: Path) -> list[Path]:
        """The files that the pairs are read from, where the user may change them; default: none."""
        return []

    def identity(self) -> Any:
        """The values (JSON) that decide the prepared data besides the settings; default: none."""
        return None

    def prepare(self, data_dir: Path, tmp_dir: Path) -> None:
        """Makes vocabulary and ids, or returns at once where they are there.

        Raises:
          UserError: the text cannot be had or is not as it should be, or its files have changed
            since it was prepared.
        """
        corpus = self._corpus(data_dir)
        corpus.prepared.make_once(lambda: self._make(corpus, data_dir, tmp_dir))
        corpus.check()

    def spec(self, data_dir: Path) -> ProblemSpec:
        """Tokens to tokens over one vocabulary, with the size that it really has."""
        size = int(self._prepared(data_dir).summary["vocab_size"])
        return ProblemSpec("tokens", "tokens", size, size, shared_vocab=True)

    def usual_spec(self) -> ProblemSpec:
        """Returns the size of the vocabulary that is asked for."""
        size = self._settings.vocab_size
        return ProblemSpec("tokens", "tokens", size, size, shared_vocab=True)

    def examples(
        self, split: str, data_dir: Path, seed: int = 0, epoch: int = 0, length: int | None = None
    ) -> ExampleTable:
        """{"inputs": [length], "targets": [target length]}, int32; `length` has no effect. The
        split is read into memory the first time, whatever its size.
        """
        if split == "train" and self._subword_dropout:
            table = self._split_at_random(data_dir, seed, epoch)
        else:
            table = self._table(split, data_dir)
        return table.examples(example_order(split, len(table), seed, epoch))

    def example_pools(self, data_dir: Path, seed: int, epoch: int) -> ExamplePools | None:
        """Pools of a corpus of more than ``LARGEST_TABLE`` pairs; None: it is smaller."""
        corpus = self._prepared(data_dir)
        if corpus.summary["splits"]["train"]["kept"] <= LARGEST_TABLE:
            return None
        if self._subword_dropout:
            raise UserError(
                f"`subword_dropout`={self._subword_dropout:g}: expected 0 for more than"
                f" {LARGEST_TABLE:,} training pairs, which are not read whole."
            )
        read = functools.partial(pair_pool, is_reversed=self.reverse)
        shards, reading = corpus.shards("train"), corpus.prepared.reading
        return deal_shards(("inputs", "targets"), shards, seed, epoch, read, reading)

    def evaluation_sets(self, lengths: tuple[int, ...] = ()) -> list[EvaluationSet]:
        """The test split, teacher-forced and translated by beam search; `lengths` means nothing
        here.
        """
        return _judged("test", "beam_size=4,alpha=0.6")

    def validation_sets(self) -> list[EvaluationSet]:
        """The validation split, teacher-forced, and some of it translated greedily: what chooses
        the checkpoint.
        """
        return _judged("validation", "beam_size=1", _VALIDATED)

    def vocab_files(self, data_dir: Path) -> list[Path]:
        """The vocabulary."""
        return [self._corpus(data_dir).vocab_file]

    def text_codec(self, vocab_dir: Path) -> TextCodec:
        """The codec of the vocabulary in `vocab_dir`."""
        return make_subword_codec(read_subwords(vocab_dir / VOCAB_FILE))

    def text_pairs(self, split: str, data_dir: Path) -> tuple[list[str], list[str]]:
        """The raw sources and references of the validation or test split, as they stood in the
        files.

        Raises:
          UserError: it is another split, or one that the problem does not have.
        """
        corpus = self._prepared(data_dir)
        self._check_split(split, corpus)
        if split == "train":
            raise UserError(
                f"the raw training text of {self.name} is not kept: scores on text are for"
                " validation and test."
            )
        sources, targets = corpus.text(split)
        return (targets, sources) if self.reverse else (sources, targets)

    def _make(self, corpus: Corpus, data_dir: Path, tmp_dir: Path) -> None:
        pairs = self.pairs(data_dir, tmp_dir)
        vocabulary = [Path(self.vocab_file)] if self.vocab_file else []
        corpus.prepare(pairs, self.name, [*self.files(tmp_dir), *vocabulary])

    def _corpus(self, data_dir: Path) -> Corpus:
        decides = json.dumps([self._settings.decisive(), self.identity()], sort_keys=True)
        digest = hashlib.sha256(decides.encode()).hexdigest()[:8]
        size = f"{self._settings.subword_model}{self._settings.vocab_size}"
        if self._settings.vocab_file:
            size = "given"
        return Corpus(
            data_dir / _FOLDER / f"{self._corpus_name}-{size}-{digest}",
            self._settings,
            self._processes,
            self._beam_options,
        )

    def _prepared(self, data_dir: Path) -> Corpus:
        corpus = self._corpus(data_dir)
        corpus.prepared.require(self, data_dir)
        return corpus

    def _check_split(self, split: str, corpus: Corpus) -> None:
        there = [name for name in self.splits if name in corpus.summary["splits"]]
        if split not in there:
            raise UserError(
                f"{self.name} has no split {split!r} in {corpus.folder}: expected one of"
                f" {', '.join(there)}."
            )

    def _split_at_random(self, data_dir: Path, seed: int, epoch: int) -> EncodedExamples:
        """The training pairs with subwords split as (seed, epoch) decide."""
        corpus = self._prepared(data_dir)
        parts = subword_parts(read_subwords(corpus.vocab_file))
        rng = np.random.default_rng([seed % 2**63, epoch, 1])
        pairs = split_pairs_at_random(corpus.ids("train"), parts, self._subword_dropout, rng)
        return (pairs.reversed() if self.reverse else pairs).table()

    def _table(self, split: str, data_dir: Path) -> EncodedExamples:
        key = (data_dir, split)
        if key not in self._tables:
            corpus = self._prepared(data_dir)
            self._check_split(split, corpus)
            pairs = corpus.ids(split)
            self._tables[key] = (pairs.reversed() if self.reverse else pairs).table()
        return self._tables[key]


def _judged(split: str, decode: str, translated: int = 0) -> list[EvaluationSet]:
    """A split for the loss, and at most `translated` (0: all) of its sentences for BLEU."""
    return [
        EvaluationSet(name="", split=split, method="teacher_forced"),
        EvaluationSet(
            name="", split=split, method="translate", decode=decode, max_examples=translated
        ),
    ]
