"""Agreement of subject and verb (Linzen, Dupoux and Goldberg, arXiv 1611.01368; Section 3.2 of
arXiv 1807.03819).

sva_language_modeling predicts the next word and is judged by whether the right form of the verb
outranks the wrong one; sva_number_prediction says singular or plural, from the words before the
verb. Words that occur once in the training text are unknown, so that the unknown word is trained
too. The wrong form of a verb comes from a dictionary; a sentence whose verb is unknown or has no
known other form cannot be ranked: it is left out of validation and test, and counted.
"""

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ut_tf.data.arrays import open_arrays, write_arrays
from ut_tf.data.corpus.encoded_pairs import Array, EncodedExamples, Side
from ut_tf.data.download import find_or_download
from ut_tf.data.example_table import ExampleTable, example_order
from ut_tf.data.prepared import PreparedFolder
from ut_tf.data.problem import Problem
from ut_tf.data.split_of import exclude_trained
from ut_tf.data.text.vocabulary import UNKNOWN, write_symbols
from ut_tf.errors import UserError, counted
from ut_tf.notices import report
from ut_tf.problem_spec import ProblemSpec
from ut_tf.problems.agreement.codec import NUMBERS, WORDS_FILE, NumberCodec, SentenceCodec
from ut_tf.problems.agreement.files import (
    FORMS,
    TABLE,
    Dependency,
    Source,
    Splits,
    files_of,
    find_source,
    read_simplified,
    read_table,
)
from ut_tf.problems.agreement.verb_forms import other_forms
from ut_tf.storage.files import sha256_of
from ut_tf.symbols import END_ID, FIRST_SYMBOL_ID

_FOLDER = "agreement"
_USUAL_WORDS = 10_000


@dataclass(frozen=True)
class Example:
    """One example: ids, answer (the id of the wrong form, or the class), number of attractors."""

    ids: list[int]
    answer: int
    attractors: int


class Agreement(Problem):
    """Base of both problems: the preparation of sentences and their table of examples.

    Args:
      source: "table", "simplified", or "auto": whichever is found, else the table is downloaded.
      disjoint_splits: whether sentences for validation that are trained on, too, are left out.
      name: the problem's name, for messages; empty: sva_ and the form.
    """

    _form: ClassVar[str] = ""
    group_by = "attractors"
    validated = 2000
    earlier_arguments: ClassVar[Mapping[str, Any]] = {"disjoint_splits": False}

    def __init__(
        self, source: Source = "auto", disjoint_splits: bool = True, name: str = ""
    ) -> None:
        self.name = name or f"sva_{self._form}"
        self.disjoint_splits = disjoint_splits
        self._source = source
        self._loaded: dict[tuple[Path, str], EncodedExamples] = {}

    @abstractmethod
    def example(
        self, dependency: Dependency, ids: Mapping[str, int], trained: bool, tags: bool
    ) -> Example | str:
        """The example that a dependency makes or, where it makes none, why it is left out.

        Args:
          dependency: of the sentence.
          ids: of the words of the vocabulary.
          trained: whether it belongs to the training split.
          tags: whether the verb's tag stands in the verb's place.
        """

    @abstractmethod
    def table(self, split: str, side: Side, answers: Array, attractors: Array) -> EncodedExamples:
        """Returns a split's features: ids, answers and numbers of attractors, int32 [examples]."""

    def read_of(self, dependency: Dependency) -> Sequence[str]:
        """The words of a sentence that an example is made of; default: all."""
        return dependency.words

    def prepare(self, data_dir: Path, tmp_dir: Path) -> None:
        """Writes ids and vocabulary and, last of all, the summary that says that everything is
        there.

        Raises:
          UserError: the files cannot be had or are not as published, or what was prepared before is
            damaged.
        """
        folder = self._folder(data_dir)
        if not folder.make_once(lambda: self._prepare(folder, tmp_dir)) and self._changed(
            folder, tmp_dir
        ):
            folder.warn_of_other_sources(self, f"those below {tmp_dir}")

    def spec(self, data_dir: Path) -> ProblemSpec:
        """The kinds of inputs and targets, with the size of the vocabulary in `data_dir`."""
        return self._spec(self._prepared(data_dir).summary()["vocab_size"])

    def usual_spec(self) -> ProblemSpec:
        """Returns about the vocabulary of the published sentences."""
        return self._spec(_USUAL_WORDS)

    def examples(
        self, split: str, data_dir: Path, seed: int = 0, epoch: int = 0, length: int | None = None
    ) -> ExampleTable:
        """The features of ``table``; reads the split into memory once; `length` has no effect."""
        table = self._load(split, data_dir)
        return table.examples(example_order(split, len(table), seed, epoch))

    def data_note(self, data_dir: Path) -> str:
        """The files that the data is from, where it is not the whole table."""
        return str(self._prepared(data_dir).summary()["note"])

    def vocab_files(self, data_dir: Path) -> list[Path]:
        """Returns words.txt, one word a line, ids from 2."""
        return [self._folder(data_dir).path / WORDS_FILE]

    @abstractmethod
    def _spec(self, vocab_size: int) -> ProblemSpec: ...

    def _prepare(self, folder: PreparedFolder, tmp_dir: Path) -> None:
        splits = self._read(tmp_dir)
        report(f"preparing {self.name} in {folder.path}\n{splits.report}")
        words = [UNKNOWN, *_vocabulary(splits.train)]
        ids = {word: number for number, word in enumerate(words, start=FIRST_SYMBOL_ID)}
        counts: dict[str, dict[str, int]] = {}
        for split, dependencies in (
            ("train", splits.train),
            ("validation", self._validation(splits, ids)),
            ("test", splits.test),
        ):
            made = [
                self.example(dependency, ids, split == "train", splits.tags)
                for dependency in dependencies
            ]
            left_out = Counter(example for example in made if isinstance(example, str))
            counts[split] = {"examples": len(made) - left_out.total(), **left_out}
            _write_examples(
                folder.path / f"{split}.npz",
                [example for example in made if isinstance(example, Example)],
                len(ids) + FIRST_SYMBOL_ID,
            )
            for reason, count in sorted(left_out.items()):
                report(f"{split}: {count} of {len(made)} sentences left out: {reason}")
        write_symbols(folder.path / WORDS_FILE, words)
        folder.finish(
            {
                "vocab_size": len(words) + FIRST_SYMBOL_ID,
                "note": splits.note,
                "splits": counts,
                "files": {path.name: sha256_of(path) for path in splits.files},
                "sha256": folder.digests((WORDS_FILE, *(f"{split}.npz" for split in counts))),
            }
        )

    def _validation(self, splits: Splits, ids: Mapping[str, int]) -> list[Dependency]:
        if not self.disjoint_splits:
            return splits.validation
        left = exclude_trained(
            splits.validation,
            splits.train,
            lambda dependency: tuple(ids.get(word, 0) for word in self.read_of(dependency)),
        )
        if not left:
            raise UserError(
                f"{self.name}: all sentences for validation are also trained on: give the whole"
                " files, or set `disjoint_splits`=false."
            )
        if count := len(splits.validation) - len(left):
            report(f"validation: {counted(count, 'sentence')} left out that training has too")
        return left

    def _read(self, tmp_dir: Path) -> Splits:
        source = find_source(tmp_dir, self._source)
        if source is not None and source.is_dir():
            return read_simplified(source)
        if self._source == "simplified":
            raise UserError(
                f"{self.name} needs the simplified files (numpred.val, numpred.test.1 and so on),"
                f" which are not in {tmp_dir}: put their folder rnn_agr_simple there, or set"
                " `tmp_dir` to the folder that has it."
            )
        return read_table(find_or_download(TABLE, source.parent if source else tmp_dir, self.name))

    def _changed(self, folder: PreparedFolder, tmp_dir: Path) -> bool:
        """Whether a file that would be read now was not read then, or had another content."""
        before: dict[str, str] = folder.summary()["files"]
        source = find_source(tmp_dir, self._source)
        return source is not None and any(
            before.get(path.name) != sha256_of(path) for path in files_of(source)
        )

    def _folder(self, data_dir: Path) -> PreparedFolder:
        return PreparedFolder(
            data_dir / _FOLDER / f"{self._form}-{self._source}{'-apart' * self.disjoint_splits}",
            needed=(WORDS_FILE,),
            fields={"vocab_size": int, "note": str, "files": dict, "sha256": dict},
        )

    def _prepared(self, data_dir: Path) -> PreparedFolder:
        return self._folder(data_dir).require(self, data_dir)

    def _load(self, split: str, data_dir: Path) -> EncodedExamples:
        self.check_split(split)
        key = (data_dir, split)
        if key not in self._loaded:
            folder = self._prepared(data_dir)
            path = folder.verified(f"{split}.npz")
            with folder.reading(), open_arrays(path) as file:
                side = Side(file["ids"], file["lengths"])
                self._loaded[key] = self.table(split, side, file["answers"], file["attractors"])
        return self._loaded[key]


class SvaLanguageModeling(Agreement):
    """Next word, on whole sentences; the verb's right form should be more probable than its wrong
    one.

    Args:
      source, disjoint_splits, name: as for Agreement.
    """

    selection_metric = ("accuracy", "max")
    method = "ranking"
    _form = "language_modeling"

    def example(
        self, dependency: Dependency, ids: Mapping[str, int], trained: bool, tags: bool
    ) -> Example | str:
        """The whole sentence and the end or, to be judged, the words up to the verb and the id of
        the verb's wrong form.

        Where the verb's tag stands in its place nothing comes after it, in training neither: not
        even the end.
        """
        words = dependency.words
        numbers = [ids.get(word, FIRST_SYMBOL_ID) for word in words]
        if trained:
            return Example(numbers if tags else [*numbers, END_ID], 0, dependency.attractors)
        verb = words[dependency.place]
        if verb not in ids or (verb in FORMS and not tags):
            return "the verb is not in the vocabulary"
        others = FORMS if tags else other_forms(verb, dependency.form)
        if not others:
            return "no other form of the verb is known"
        known = [ids[other] for other in others if other in ids and other != verb]
        # Words are numbered by how common they are: of "am" and "are", the wrong forms of "is", the
        # more common one.
        if known:
            return Example(numbers[: dependency.place + 1], min(known), dependency.attractors)
        return "the verb's other form is not in the vocabulary"

    def table(self, split: str, side: Side, answers: Array, attractors: Array) -> EncodedExamples:
        """{"targets": int32 [batch, length]} and, except in training, {"alternative",
        "attractors"}: int32 [batch].
        """
        judged = {} if split == "train" else {"alternative": answers, "attractors": attractors}
        return EncodedExamples({"targets": side}, judged)

    def text_codec(self, vocab_dir: Path) -> SentenceCodec:
        """The codec of sentences, to be scored."""
        return SentenceCodec(vocab_dir)

    def _spec(self, vocab_size: int) -> ProblemSpec:
        return ProblemSpec("none", "tokens", input_vocab_size=0, target_vocab_size=vocab_size)


class SvaNumberPrediction(Agreement):
    """Singular (class 0) or plural (class 1), from the words before the verb.

    Args:
      source, disjoint_splits, name: as for Agreement.
    """

    selection_metric = ("error", "min")
    method = "classify"
    _form = "number_prediction"

    def read_of(self, dependency: Dependency) -> Sequence[str]:
        """The words before the verb."""
        return dependency.words[: dependency.place]

    def example(
        self, dependency: Dependency, ids: Mapping[str, int], trained: bool, tags: bool
    ) -> Example:
        """The words before the verb, the end, and the class."""
        before = [ids.get(word, FIRST_SYMBOL_ID) for word in dependency.words[: dependency.place]]
        return Example([*before, END_ID], FORMS.index(dependency.form), dependency.attractors)

    def table(self, split: str, side: Side, answers: Array, attractors: Array) -> EncodedExamples:
        """{"inputs": int32 [batch, length], "targets", "attractors": int32 [batch]}."""
        return EncodedExamples({"inputs": side}, {"targets": answers, "attractors": attractors})

    def text_codec(self, vocab_dir: Path) -> NumberCodec:
        """The codec of sentences up to their verb."""
        return NumberCodec(vocab_dir)

    def _spec(self, vocab_size: int) -> ProblemSpec:
        return ProblemSpec(
            "tokens", "class", input_vocab_size=vocab_size, target_vocab_size=len(NUMBERS)
        )


def _vocabulary(dependencies: Iterable[Dependency]) -> list[str]:
    """The words that occur more than once, the most common first, and the verbs' tags."""
    counts = Counter(word for dependency in dependencies for word in dependency.words)
    words = [
        word for word, count in counts.items() if (count > 1 or word in FORMS) and word != UNKNOWN
    ]
    return sorted(words, key=lambda word: (-counts[word], word))


def _write_examples(path: Path, examples: list[Example], vocab_size: int) -> None:
    side = Side.of([example.ids for example in examples], vocab_size)
    answers, attractors = (
        np.array([getattr(example, name) for example in examples], np.int32)
        for name in ("answer", "attractors")
    )
    write_arrays(path, ids=side.ids, lengths=side.lengths, answers=answers, attractors=attractors)
