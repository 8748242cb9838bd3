"""Base of the problems of the user's own files: a subword vocabulary, and ids of each split
prepared once in a folder whose name follows from the files and settings.
"""

import hashlib
import json
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Self

from ut_tf.data.arguments import file_paths
from ut_tf.data.arrays import open_arrays, write_arrays
from ut_tf.data.corpus.encoded_pairs import Array, EncodedExamples
from ut_tf.data.example_table import ExampleTable, example_order
from ut_tf.data.prepared import PreparedFolder, check_readable, source_record
from ut_tf.data.problem import Problem
from ut_tf.data.text.subword_files import AnySubwords, read_subwords, warn_of_other_text
from ut_tf.data.text.subwords import (
    SubwordKind,
    SubwordOptions,
    Subwords,
    check_kind,
    fit_texts,
    smaller_vocabulary,
    train_subwords,
)
from ut_tf.errors import UserError, counted
from ut_tf.notices import report

Files = tuple[str, ...]
Arrays = Mapping[str, Array]
SPLITS = ("train", "validation", "test")
PURPOSES = {"train": "training", "validation": "validation", "test": "testing"}
# What version 0.4 did with text.
EARLIER_ARGUMENTS = {"fit_vocabulary": False, "disjoint_splits": False}


class PreparedSplits(NamedTuple):
    """The splits that are made of the files.

    Fields:
      arrays: of each split by name; a split that is written in shards has none.
      examples: how many each split has.
      vocab_size: the number of ids.
      vocabulary: the symbols in words: "8,000 subwords".
      further: further entries of the summary.
    """

    arrays: Mapping[str, Arrays]
    examples: Mapping[str, int]
    vocab_size: int
    vocabulary: str
    further: Mapping[str, Any]


@dataclass(frozen=True)
class Settings:
    """The settings that decide what is prepared, besides the files.

    Args:
      vocab_size: ids of the vocabulary, or what a small text supports; 0: `default_size`.
      subword_model: kind of that vocabulary.
      vocab_file: a sentencepiece model or a vocabulary of tensor2tensor to use instead; empty: one
        is trained.
      default_size: ids where `vocab_size` is 0.
      fitted: whether a small text has fewer, so that each is seen often enough to be learnt.
      keep_blanks: whether runs of blanks and blanks at the ends of a text count.
    """

    vocab_size: int
    subword_model: SubwordKind
    vocab_file: str
    default_size: int
    fitted: bool = False
    keep_blanks: bool = False

    @classmethod
    def of(
        cls, default_size: int, options: SubwordOptions, fitted: bool, keep_blanks: bool = False
    ) -> Self:
        """The settings that a problem's arguments ask for."""
        file = options.get("vocab_file", "")
        return cls(
            vocab_size=options.get("vocab_size", 0),
            subword_model=options.get("subword_model", "bpe"),
            vocab_file=str(*file_paths([file])) if file else "",
            default_size=default_size,
            fitted=fitted and not file,
            keep_blanks=keep_blanks,
        )

    def __post_init__(self) -> None:
        if self.vocab_size < 0:
            raise UserError(f"`vocab_size`={self.vocab_size}: expected at least 0.")
        check_kind(self.subword_model)

    @property
    def wanted_size(self) -> int:
        """Ids of a vocabulary that is trained, if the text supports them."""
        return self.vocab_size or self.default_size

    @property
    def given(self) -> tuple[Path, ...]:
        """The file of a vocabulary that is not trained, if there is one."""
        return (Path(self.vocab_file),) if self.vocab_file else ()

    def subwords(self, texts: Iterable[str]) -> AnySubwords:
        """The vocabulary of a training text.

        Raises:
          UserError: the text has too many different characters for the size, or the file holds no
            vocabulary.
        """
        if self.vocab_file:
            return self._read_given()
        # A set's vocab_size is meant for more text than many people have.
        size = self.wanted_size
        if self.fitted:
            texts, size = fit_texts(texts, size)
        kind, blanks = self.subword_model, self.keep_blanks
        return Subwords(train_subwords(texts, size, kind, exact=False, keep_blanks=blanks))

    def made(
        self,
        name: str,
        subwords: AnySubwords,
        splits: Mapping[str, Arrays],
        further: Mapping[str, Any],
    ) -> PreparedSplits:
        """What is made of the files: the encoded splits with a line for each text.

        Args:
          name: of the problem, for messages.
          subwords: the vocabulary.
          splits: "ids", "lengths" and other arrays of each.
          further: entries of the summary; {"sharded": {split: examples}} of splits in shards.
        """
        for split, arrays in splits.items():
            text = f"the text for {PURPOSES[split]} of {name}"
            warn_of_other_text(subwords, arrays["ids"], text)
        smaller = smaller_vocabulary(name, self.subword_model, subwords.size, self.wanted_size)
        if smaller and not self.vocab_file:
            report(smaller)
        counts = {split: len(arrays["lengths"]) for split, arrays in splits.items()}
        examples = {**further.get("sharded", {}), **counts}
        vocabulary = f"{subwords.size:,} subwords"
        return PreparedSplits(splits, examples, subwords.size, vocabulary, further)

    def _read_given(self) -> AnySubwords:
        subwords = read_subwords(Path(self.vocab_file))
        if self.keep_blanks and not (isinstance(subwords, Subwords) and subwords.keeps_blanks):
            raise UserError(
                f"`keep_blanks`=true: the vocabulary {self.vocab_file} drops blanks: give one that"
                " sentencepiece trained with remove_extra_whitespaces=false, or leave"
                " `keep_blanks` out."
            )
        return subwords

    def decisive(self) -> dict[str, Any]:
        """The settings, ready for JSON. What is false names no folder, as in version 0.4."""
        later = ("fitted", "keep_blanks")
        return {name: value for name, value in vars(self).items() if value or name not in later}


class OwnFiles(Problem):
    """Base of the problems of the user's own files.

    Args:
      name: the problem's name, for messages.
      files: those of each split; of "validation" and "test" there may be none.
      settings: what decides the prepared data besides, ready for JSON.
      given: files of vocabularies that are not made here.
      disjoint_splits: whether nothing that is held out for validation is trained on, however it is
        written.
    """

    file_arguments: ClassVar[Mapping[str, Literal["file", "files"]]] = {
        "source_files": "files",
        "dev_source_files": "files",
        "test_source_files": "files",
    }
    needed: ClassVar[tuple[str, ...]]
    """Names of the prepared files besides the splits: the vocabularies."""
    unit: ClassVar[str]
    """The name of an example of the files."""

    def __init__(
        self,
        name: str,
        files: Mapping[str, Sequence[Path]],
        settings: Sequence[Any],
        given: Sequence[Path] = (),
        disjoint_splits: bool = False,
    ) -> None:
        self.name = name
        self._own_files = files
        self._given = given
        self._keeps_apart = disjoint_splits and not files["validation"]
        apart = ["apart"] if self._keeps_apart else []
        by_split = {split: list(map(str, paths)) for split, paths in files.items()}
        self._identity = json.dumps([*settings, by_split, *apart], sort_keys=True)
        self._loaded: dict[tuple[Path, str], Any] = {}

    @abstractmethod
    def make(self, folder: Path) -> PreparedSplits:
        """Reads the files and writes the vocabularies to the folder."""

    def prepare(self, data_dir: Path, tmp_dir: Path) -> None:
        """Makes vocabulary and ids, or returns at once where they are there.

        Raises:
          UserError: no files are named, one is not as it should be, or has changed since.
        """
        if not self._own_files["train"]:
            raise UserError(
                f"problem {self.name} has no training file: name it with `source_files`."
            )
        folder = self._folder(data_dir)
        folder.make_once(lambda: self._make(folder))
        folder.refuse_changed_sources()

    @property
    def judged_split(self) -> str:
        """The test split or, where no files were given for it, the validation split."""
        return "test" if self._own_files["test"] else "validation"

    def vocab_files(self, data_dir: Path) -> list[Path]:
        """The vocabularies."""
        return [self._folder(data_dir).path / name for name in self.needed]

    def summary(self, data_dir: Path) -> dict[str, Any]:
        """The summary of what is prepared: "vocab_size", "examples" of each split."""
        return self._folder(data_dir).require(self, data_dir).summary()

    def examples(
        self, split: str, data_dir: Path, seed: int = 0, epoch: int = 0, length: int | None = None
    ) -> ExampleTable:
        """The features of ``load``; reads the split into memory once; `length` has no effect."""
        table: EncodedExamples = self.loaded(split, data_dir)
        return table.examples(example_order(split, len(table), seed, epoch))

    @abstractmethod
    def load(self, split: str, data_dir: Path) -> Any:
        """Reads a split as EncodedExamples, unless ``examples`` is defined as well."""

    def loaded(self, split: str, data_dir: Path) -> Any:
        """What ``load`` returned the first time."""
        key = (data_dir, split)
        if key not in self._loaded:
            self._loaded[key] = self.load(split, data_dir)
        return self._loaded[key]

    def arrays(self, split: str, data_dir: Path) -> Arrays:
        """The prepared arrays of a split."""
        there = [name for name in SPLITS if name in self.summary(data_dir)["examples"]]
        if split not in there:
            raise UserError(
                f"{self.name} has no split {split!r}: expected one of {', '.join(there)}."
            )
        folder = self._folder(data_dir)
        path = folder.verified(f"{split}.npz")
        with folder.reading(), open_arrays(path) as arrays:
            return dict(arrays)

    def _make(self, folder: PreparedFolder) -> None:
        paths = [*(path for split in SPLITS for path in self._own_files[split]), *self._given]
        check_readable(paths)
        report(f"preparing {self.name} in {folder.path}")
        folder.path.mkdir(parents=True, exist_ok=True)
        records = [source_record(path) for path in paths]
        made = self.make(folder.path)
        for split, arrays in made.arrays.items():
            write_arrays(folder.path / f"{split}.npz", **arrays)
        digests = folder.digests((*self.needed, *(f"{split}.npz" for split in made.arrays)))
        folder.finish(
            {
                "vocab_size": made.vocab_size,
                **made.further,
                "examples": made.examples,
                "files": records,
                "sha256": digests,
            }
        )
        told = ", ".join(
            f"{counted(count, self.unit)} for {PURPOSES[split]}"
            for split, count in made.examples.items()
        )
        report(f"{self.name}: {told}; {made.vocabulary}")

    def _folder(self, data_dir: Path) -> PreparedFolder:
        digest = hashlib.sha256(self._identity.encode()).hexdigest()[:8]
        return PreparedFolder(
            data_dir / "own_files" / f"{self.name}-{digest}",
            needed=self.needed,
            fields={"vocab_size": int, "examples": dict, "files": list, "sha256": dict},
        )
