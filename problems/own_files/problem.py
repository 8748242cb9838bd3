"""Base of the problems of the user's own files: a subword vocabulary, and ids of each split
prepared once in a folder whose name follows from the files and settings.
"""

import hashlib
import json
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from ut_tf.data.arguments import file_paths
from ut_tf.data.arrays import open_arrays, write_arrays
from ut_tf.data.corpus.corpus import VOCAB_FILE
from ut_tf.data.corpus.encoded_pairs import Array, Side
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
SPLITS = ("train", "validation", "test")
_PURPOSES = {"train": "training", "validation": "validation", "test": "testing"}


@dataclass(frozen=True)
class Encoded:
    """The examples of a split: ids of their texts, and int32 [examples] of their classes."""

    side: Side
    classes: Array


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

    def subwords(self, texts: Iterable[str]) -> AnySubwords:
        """The vocabulary of a training text.

        Raises:
          UserError: the text has too many different characters for the size, or the file holds no
            vocabulary.
        """
        if self.vocab_file:
            return self._given()
        # A set's vocab_size is meant for more text than many people have.
        size = self.wanted_size
        if self.fitted:
            texts, size = fit_texts(texts, size)
        kind, blanks = self.subword_model, self.keep_blanks
        return Subwords(train_subwords(texts, size, kind, exact=False, keep_blanks=blanks))

    def _given(self) -> AnySubwords:
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
      settings: Settings.
      files: those of each split; of "validation" and "test" there may be none.
      identity: what decides the prepared data besides (JSON).
      disjoint_splits: whether nothing that is held out for validation is trained on, however it is
        written.
    """

    file_arguments: ClassVar[Mapping[str, Literal["file", "files"]]] = {
        "vocab_file": "file",
        "source_files": "files",
        "dev_source_files": "files",
        "test_source_files": "files",
    }
    earlier_arguments: ClassVar[Mapping[str, Any]] = {
        "fit_vocabulary": False,
        "disjoint_splits": False,
    }

    def __init__(
        self,
        name: str,
        settings: Settings,
        files: Mapping[str, Sequence[Path]],
        identity: Any,
        disjoint_splits: bool,
    ) -> None:
        self.name = name
        self._settings = settings
        self._own_files = files
        self._identity = [
            settings.decisive(),
            identity,
            {split: list(map(str, paths)) for split, paths in files.items()},
        ]
        self._keeps_apart = disjoint_splits and not files["validation"]
        if self._keeps_apart:
            self._identity.append("apart")
        self._loaded: dict[tuple[Path, str], Encoded] = {}

    @abstractmethod
    def make(self, folder: Path) -> tuple[Mapping[str, Encoded], int, Mapping[str, Any]]:
        """Reads the files and writes the vocabularies to the folder.

        Returns:
          (the splits, the number of ids, further entries of the summary). A split that it writes in
          shards itself is not among the splits, but the number of its examples among the entries:
          {"sharded": {split: examples}}.
        """

    @property
    def needed(self) -> tuple[str, ...]:
        """Names of the prepared files besides the splits: the vocabularies."""
        return (VOCAB_FILE,)

    def prepare(self, data_dir: Path, tmp_dir: Path) -> None:
        """Makes vocabulary and ids, or returns at once where they are there.

        Raises:
          UserError: no files are named, one is not as it should be, or has changed since.
        """
        if not self._own_files["train"]:
            raise UserError(
                f"problem {self.name} has no training text: name its files with `source_files`."
            )
        folder = self._folder(data_dir)
        folder.make_once(lambda: self._make(folder))
        folder.refuse_changed_sources()

    @property
    def judged_split(self) -> str:
        """The test split or, where no files were given for it, the validation split."""
        return "test" if self._own_files["test"] else "validation"

    unit: ClassVar[str] = ""
    """The name of an example of the files."""

    def vocab_files(self, data_dir: Path) -> list[Path]:
        """The vocabularies."""
        return [self._folder(data_dir).path / name for name in self.needed]

    def summary(self, data_dir: Path) -> dict[str, Any]:
        """The summary of what is prepared: "vocab_size", "examples" of each split."""
        return self._folder(data_dir).require(self, data_dir).summary()

    def loaded(self, split: str, data_dir: Path) -> Encoded:
        """A split, which is read into memory the first time."""
        key = (data_dir, split)
        if key not in self._loaded:
            there = [name for name in SPLITS if name in self.summary(data_dir)["examples"]]
            if split not in there:
                raise UserError(
                    f"{self.name} has no split {split!r}: expected one of {', '.join(there)}."
                )
            folder = self._folder(data_dir)
            path = folder.verified(f"{split}.npz")
            with folder.reading(), open_arrays(path) as file:
                side = Side(file["ids"], file["lengths"])
                self._loaded[key] = Encoded(side, file["classes"])
        return self._loaded[key]

    def _make(self, folder: PreparedFolder) -> None:
        vocabulary = [Path(self._settings.vocab_file)] if self._settings.vocab_file else []
        paths = [path for split in SPLITS for path in self._own_files[split]]
        check_readable([*paths, *vocabulary])
        report(f"preparing {self.name} in {folder.path}")
        folder.path.mkdir(parents=True, exist_ok=True)
        records = [source_record(path) for path in (*paths, *vocabulary)]
        splits, vocab_size, others = self.make(folder.path)
        subwords = read_subwords(folder.path / VOCAB_FILE)
        for split, encoded in splits.items():
            text = f"the text for {_PURPOSES[split]} of {self.name}"
            warn_of_other_text(subwords, encoded.side.ids, text)
            side, classes = encoded.side, encoded.classes
            path = folder.path / f"{split}.npz"
            write_arrays(path, ids=side.ids, lengths=side.lengths, classes=classes)
        counts = {split: len(encoded.side.lengths) for split, encoded in splits.items()}
        counts = {**others.get("sharded", {}), **counts}
        digests = folder.digests((*self.needed, *(f"{split}.npz" for split in splits)))
        folder.finish(
            {
                "vocab_size": vocab_size,
                **others,
                "examples": counts,
                "files": records,
                "sha256": digests,
            }
        )
        told = ", ".join(
            f"{counted(count, self.unit)} for {_PURPOSES[split]}" for split, count in counts.items()
        )
        report(f"{self.name}: {told}; {vocab_size:,} subwords")
        kind, wanted = self._settings.subword_model, self._settings.wanted_size
        smaller = smaller_vocabulary(self.name, kind, vocab_size, wanted)
        if smaller and not self._settings.vocab_file:
            report(smaller)

    def _folder(self, data_dir: Path) -> PreparedFolder:
        digest = hashlib.sha256(json.dumps(self._identity, sort_keys=True).encode()).hexdigest()[:8]
        return PreparedFolder(
            data_dir / "own_files" / f"{self.name}-{digest}",
            needed=self.needed,
            fields={"vocab_size": int, "examples": dict, "files": list, "sha256": dict},
        )
