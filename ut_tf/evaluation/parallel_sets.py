"""Sentences with their reference translations: a problem's split, or the user's files.

Example::

    problem_set(run, "test")  # of the prepared data
    # as many references as one likes
    file_set(Path("news.en"), [Path("news.de"), Path("news.other.de")])
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ut_tf.data.corpus.parallel_text import read_lines
from ut_tf.errors import UserError
from ut_tf.inference.text_files import read_input
from ut_tf.metrics.bleu import check_lines
from ut_tf.run import Run


@dataclass(frozen=True)
class ParallelSet:
    """Sentences and, where there are any, references.

    Args:
      name: "test", "validation", or the source file's name without its end.
      sources: one sentence each.
      references: lists as long as `sources`; none: nothing to compare with.
    """

    name: str
    sources: Sequence[str]
    references: Sequence[Sequence[str]] = ()

    @property
    def digest(self) -> str:
        """Sixteen hexadecimal digits that follow from all sentences and references."""
        content = json.dumps([list(self.sources), [list(lines) for lines in self.references]])
        return hashlib.sha256(content.encode()).hexdigest()[:16]


def problem_set(run: Run, split: str | None = None) -> ParallelSet:
    """A split of a run's problem; its data must be prepared.

    Args:
      run: whose problem is meant.
      split: its name; None: that of the problem's evaluation sets.

    Raises:
      UserError: the problem has no raw text, no such split, or its data is not there.
    """
    problem = run.make_problem()
    if split is None:
        split = problem.evaluation_sets()[0].split
    if split not in problem.splits:
        present = [name for name in problem.splits if name != "train"]
        raise UserError(
            f"`split`={split}: problem {run.problem} has the splits {', '.join(present)}; name one"
            " of them."
        )
    sources, references = problem.text_pairs(split, run.data_dir)
    return ParallelSet(split, sources, [references])


def check_one_text(run: Run) -> None:
    """Raises UserError where a run reads more than one text for an example: its sentences cannot be
    translated one by one.
    """
    fields = run.text_codec().fields
    if len(fields) != 1:
        raise UserError(
            f"the run in {run.output_dir} reads {', '.join(fields) or 'no text'} for each example:"
            " only a run that reads one sentence for each is translated and scored; evaluate it"
            " with ut-eval."
        )


def file_set(source: Path, references: Sequence[Path] = ()) -> ParallelSet:
    """The sentences of a file and of its references.

    Raises:
      UserError: a file cannot be read, or has another number of lines than the source.
    """
    sources = read_input(source)
    translations = [read_reference(path) for path in references]
    if references:
        check_lines(
            len(sources),
            [len(lines) for lines in translations],
            [str(source), *map(str, references)],
        )
    elif not sources:
        raise UserError(f"{source} has no lines: expected one sentence a line.")
    return ParallelSet(source.name.removesuffix(".gz"), sources, translations)


def read_reference(path: Path) -> list[str]:
    """The lines of a file of translations, plain or packed by gzip.

    Raises:
      UserError: the file cannot be read or is not UTF-8; names file and line.
    """
    return list(read_lines(path))
