"""Translation learnt from the user's own files.

How it is used::

    Run.create("translate_files", "ut_translate_small",
               problem_args={"source_files": ["a.en.gz"], "target_files": ["a.de.gz"]})

See ``ParallelFiles`` for what the files hold. Without files for validation a small part of the
training pairs is held out. A small text has a smaller vocabulary than `vocab_size`. With a
vocabulary alone nothing can be trained, but a run that has learnt elsewhere translates.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal, Unpack

from ut_tf.data.arguments import file_paths
from ut_tf.data.corpus.encoding import Pair
from ut_tf.data.corpus.parallel_text import ParallelFiles
from ut_tf.data.example_table import ExampleTable
from ut_tf.data.problem import EvaluationSet
from ut_tf.errors import UserError
from ut_tf.problems.translation.problem import Translation, TranslationOptions

Files = tuple[str, ...]


class TranslateFiles(Translation):
    """Pairs from files.

    Args:
      source_files, target_files: for training; without target files each line of a source file is
        source, tab, target.
      dev_source_files, dev_target_files: for validation; none: training pairs are held out.
      test_source_files, test_target_files: for ut-eval; none: the validation pairs are judged.
      fit_vocabulary: whether a small text has fewer subwords than `vocab_size`, so that each is
        seen often enough to be learnt; otherwise as many as it supports.
      disjoint_splits: whether pairs with a side that is held out for validation are not trained on,
        however its blanks and characters are written.
      name: of the problem, for messages.
      **options: see ``TranslationOptions``.
    """

    file_arguments: ClassVar[Mapping[str, Literal["file", "files"]]] = {
        **Translation.file_arguments,
        "source_files": "files",
        "target_files": "files",
        "dev_source_files": "files",
        "dev_target_files": "files",
        "test_source_files": "files",
        "test_target_files": "files",
    }
    earlier_arguments: ClassVar[Mapping[str, Any]] = {
        "fit_vocabulary": False,
        "disjoint_splits": False,
    }

    def __init__(
        self,
        source_files: Files | str = (),
        target_files: Files | str = (),
        dev_source_files: Files | str = (),
        dev_target_files: Files | str = (),
        test_source_files: Files | str = (),
        test_target_files: Files | str = (),
        fit_vocabulary: bool = True,
        disjoint_splits: bool = True,
        name: str = "translate_files",
        **options: Unpack[TranslationOptions],
    ) -> None:
        given = {
            "train": (source_files, target_files),
            "validation": (dev_source_files, dev_target_files),
            "test": (test_source_files, test_target_files),
        }
        for prefix, (sources, targets) in zip(("", "dev_", "test_"), given.values(), strict=True):
            if targets and not sources:
                raise UserError(
                    f"`{prefix}source_files` is missing: `{prefix}target_files` holds the"
                    " translations of its lines; give both."
                )
        self._files = {
            split: ParallelFiles(file_paths(sources), file_paths(targets))
            for split, (sources, targets) in given.items()
        }
        # A set's vocab_size is meant for more text than many people have.
        disjoint = disjoint_splits and not self._files["validation"].sources
        super().__init__(
            name, "files", 8000, exact=False, fitted=fit_vocabulary, disjoint=disjoint, **options
        )

    def pairs(self, data_dir: Path, tmp_dir: Path) -> Mapping[str, Iterable[Pair]]:
        """The pairs in the files; none where a vocabulary alone is given, with which a run from
        elsewhere translates.
        """
        if self.vocab_file and not self._files["train"].sources:
            return {"train": (), "validation": ()}
        self._require_text()
        return {split: files for split, files in self._files.items() if files.sources}

    def examples(
        self, split: str, data_dir: Path, seed: int = 0, epoch: int = 0, length: int | None = None
    ) -> ExampleTable:
        """As ``Translation.examples``; raises UserError where there is no training text."""
        self._require_text()
        return super().examples(split, data_dir, seed, epoch, length)

    def text_pairs(self, split: str, data_dir: Path) -> tuple[list[str], list[str]]:
        """As ``Translation.text_pairs``; raises UserError where there is no training text."""
        self._require_text()
        return super().text_pairs(split, data_dir)

    def _require_text(self) -> None:
        if not self._files["train"].sources:
            raise UserError(
                f"problem {self.name} has no training text: name its files with `source_files`"
                " and `target_files` (or `source_files` alone, for lines of source, tab, target)."
            )

    def files(self, tmp_dir: Path) -> list[Path]:
        """All files."""
        return [path for files in self._files.values() for path in files.files]

    def identity(self) -> Any:
        """The names of all files."""
        return {
            split: [[str(path) for path in side] for side in (files.sources, files.targets)]
            for split, files in self._files.items()
        }

    def evaluation_sets(self, lengths: tuple[int, ...] = ()) -> list[EvaluationSet]:
        """The sets of the test split or, where no files were given for it, the same of the
        validation split.
        """
        sets = super().evaluation_sets(lengths)
        if self._files["test"].sources:
            return sets
        return [dataclasses.replace(of_test, split="validation") for of_test in sets]
