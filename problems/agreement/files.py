"""Files about the agreement of subject and verb (Linzen, Dupoux and Goldberg, arXiv 1611.01368).

The table, agr_50_mostcommon_10K.tsv.gz, has one sentence of Wikipedia a line, with the position of
the verb and the number of nouns between verb and subject; all but the 10,000 most common words are
replaced by their part of speech. It is shuffled with seed 1 and divided as in the paper's code: 9 %
train, 1 % validate, the others test, except sentences in which a noun between subject and verb has
the subject's number (`n_intervening` differs from `n_diff_intervening`).

The simplified files, numpred.*, have the words before the verb, after the verb's tag and a tab.
"""

import csv
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from ut_tf.data.corpus.parallel_text import read_lines
from ut_tf.data.download import Archive
from ut_tf.errors import UserError, counted

Source = Literal["auto", "table", "simplified"]
FORMS = ("VBZ", "VBP")
UNKNOWN_ATTRACTORS = -1
_FOLDERS = ("", "agreement", "rnn_agr_simple", "agreement/rnn_agr_simple")
_SEED = 1
_REMEDY = "put the whole published file in its place"
_TRAIN_SHARE, _VALIDATION_SHARE = 0.09, 0.01
_MOST_ATTRACTORS = 5
# Of the simplified files without a training file.
_TRAINED_SHARE = 0.9
_HELD_OUT_SHARE, _HELD_OUT_MOST = 0.05, 1000
_MOST_DIGITS = 18
_COLUMNS = ("sentence", "verb_pos", "verb_index", "n_intervening", "n_diff_intervening")

TABLE = Archive(
    file="agr_50_mostcommon_10K.tsv.gz",
    urls=("http://tallinzen.net/media/rnn_agreement/agr_50_mostcommon_10K.tsv.gz",),
    advice=(
        "the simplified files (a folder rnn_agr_simple with numpred.val, numpred.test.1 and so on)"
        " do as well"
    ),
)


@dataclass(frozen=True, slots=True)
class Dependency:
    """A sentence, or the beginning of one, with a verb in the present tense.

    Args:
      text: its words, with blanks between them.
      place: number of the verb among the words, from 0.
      form: "VBZ" (singular) or "VBP" (plural).
      attractors: nouns between subject and verb that have the other number; -1: nobody knows.
    """

    text: str
    place: int
    form: str
    attractors: int

    @property
    def words(self) -> list[str]:
        """The words; blanks alone divide them, as in the numbering of the published table."""
        return [word for word in self.text.split(" ") if word]


@dataclass(frozen=True)
class Splits:
    """The dependencies of the files.

    Args:
      train, validation, test: the dependencies of each split.
      note: how this differs from the published benchmark; empty: it does not.
      report: a line about what was used, printed when the data is prepared.
      tags: whether the verb's tag stands in the verb's place, and nothing after it.
      files: that were read.
    """

    train: list[Dependency]
    validation: list[Dependency]
    test: list[Dependency]
    note: str = ""
    report: str = ""
    tags: bool = False
    files: list[Path] = field(default_factory=list)


def find_source(tmp_dir: Path, source: Source) -> Path | None:
    """The table's file or the folder of the simplified files, whichever is wanted and there; None:
    neither is.

    Looked for in `tmp_dir` and its folders agreement, rnn_agr_simple and agreement/rnn_agr_simple;
    under "auto" the table comes first.
    """
    folders = [tmp_dir / folder for folder in _FOLDERS]
    tables = [folder / TABLE.file for folder in folders if (folder / TABLE.file).is_file()]
    simplified = [folder for folder in folders if any(folder.glob("numpred.*"))]
    sources = {"auto": tables + simplified, "table": tables, "simplified": simplified}[source]
    return sources[0] if sources else None


def files_of(source: Path) -> list[Path]:
    """The files to read of what ``find_source`` found: the table, or the simplified files there."""
    if source.is_file():
        return [source]
    paths = [source / "numpred.train", _validation_file(source), *_test_files(source).values()]
    return [path for path in paths if path is not None and path.is_file()]


def read_table(path: Path) -> Splits:
    """The splits of the table.

    Raises:
      UserError: the file is cut off or no gzip file, or a line is not of the format; names file and
        line.
    """
    rows = list(_table_rows(path))
    random.Random(_SEED).shuffle(rows)
    trained = int(len(rows) * _TRAIN_SHARE)
    judged = trained + int(len(rows) * _VALIDATION_SHARE)
    train, validation, test = (
        [sentence for sentence, _ in part] for part in (rows[:trained], rows[trained:judged], ())
    )
    test = [sentence for sentence, is_uniform in rows[judged:] if is_uniform]
    if not (train and validation and test):
        raise UserError(
            f"{path} has {counted(len(rows), 'sentence')}, too few to divide: expected the whole"
            " table; put it in its place."
        )
    report = (
        f"{path.name}: {len(train)} sentences for training, {len(validation)} for validation,"
        f" {len(test)} for the test"
    )
    return Splits(train, validation, test, report=report, files=[path])


def read_simplified(folder: Path) -> Splits:
    """The splits of the simplified files, in which the verb's tag stands in the verb's place.

    Where numpred.train is there it is trained on, numpred.valid (or numpred.val) validates and
    numpred.test.0 and so on test. Where it is not, numpred.val and nine tenths of numpred.test.1
    are trained on, except lines that are in the test too; a part of them is held out for
    validation, and the others test.

    Raises:
      UserError: a file is missing, or a line is not of the format; names file and line.
    """
    tests, validating = _test_files(folder), _validation_file(folder)
    if validating is None:
        raise _missing(folder, "numpred.val (or numpred.valid)")
    by_attractors = {number: list(_simplified_rows(path, number)) for number, path in tests.items()}
    validation = list(_simplified_rows(validating, UNKNOWN_ATTRACTORS))
    training = folder / "numpred.train"
    if training.is_file():
        if not tests:
            raise _missing(folder, "numpred.test.0, numpred.test.1 and so on")
        train = list(_simplified_rows(training, UNKNOWN_ATTRACTORS))
        test = [sentence for rows in by_attractors.values() for sentence in rows]
        report = f"{training.name}: {len(train)} lines for training; {_groups_report(test)}"
        return Splits(
            train, validation, test, "simplified files", report, tags=True, files=files_of(folder)
        )
    if 1 not in tests:
        raise _missing(folder, "numpred.train, or else numpred.test.1")
    return _without_training_file(validating.name, validation, by_attractors, files_of(folder))


def _validation_file(folder: Path) -> Path | None:
    return next(
        (path for name in ("valid", "val") if (path := folder / f"numpred.{name}").is_file()), None
    )


def _test_files(folder: Path) -> dict[int, Path]:
    """The files that test by their numbers of attractors, those that are there."""
    paths = {number: folder / f"numpred.test.{number}" for number in range(_MOST_ATTRACTORS + 1)}
    return {number: path for number, path in paths.items() if path.is_file()}


def _without_training_file(
    name: str, rows: list[Dependency], groups: dict[int, list[Dependency]], files: list[Path]
) -> Splits:
    shuffled = random.Random(_SEED)
    one_attractor = list(groups[1])
    shuffled.shuffle(one_attractor)
    cut = int(len(one_attractor) * _TRAINED_SHARE)
    test = [
        *one_attractor[cut:],
        *(row for number, group in groups.items() if number != 1 for row in group),
    ]
    tested = {row.text for row in test}
    pool = [row for row in [*rows, *one_attractor[:cut]] if row.text not in tested]
    alike = len(rows) + cut - len(pool)
    shuffled.shuffle(pool)
    held_out = min(_HELD_OUT_MOST, int(len(pool) * _HELD_OUT_SHARE))
    report = (
        f"no numpred.train: {len(pool) - held_out} lines of {name} and of nine tenths of"
        f" numpred.test.1 for training, {held_out} more for validation, {alike} left out that stand"
        f" in the test too; {_groups_report(test)}"
    )
    note = f"simplified files, trained on {name} and 90 % of numpred.test.1"
    return Splits(pool[held_out:], pool[:held_out], test, note, report, tags=True, files=files)


def _groups_report(test: list[Dependency]) -> str:
    counts = {
        number: sum(row.attractors == number for row in test)
        for number in range(_MOST_ATTRACTORS + 1)
    }
    there = ", ".join(f"{count} with {number}" for number, count in counts.items() if count)
    missing = [str(number) for number, count in counts.items() if not count]
    return f"tested on lines by their number of attractors: {there}" + (
        f" (none with {', '.join(missing)})" if missing else ""
    )


def _missing(folder: Path, files: str) -> UserError:
    return UserError(
        f"{folder} has no {files}: expected the simplified agreement files; put it there, or name"
        " another `tmp_dir`."
    )


def _table_rows(path: Path) -> Iterator[tuple[Dependency, bool]]:
    """Yields each sentence, and whether every noun between subject and verb is an attractor."""
    reader = csv.reader((f"{line}\n" for line in read_lines(path)), delimiter="\t")
    try:
        header = next(reader, [])
        missing = [name for name in _COLUMNS if name not in header]
        if missing:
            raise UserError(
                f"{path}, line 1: there is no column {', '.join(missing)}: expected the header of"
                f" {TABLE.file}."
            )
        columns = [header.index(name) for name in _COLUMNS]
        for row in reader:
            if len(row) != len(header):
                raise _malformed(
                    path,
                    reader.line_num,
                    f"{counted(len(row), 'column')}",
                    f"{len(header)}, as in line 1",
                )
            yield _table_row(path, reader.line_num, *(row[column] for column in columns))
    except csv.Error as error:
        raise _malformed(
            path, reader.line_num, str(error), "columns with tabs between them"
        ) from error


def _table_row(
    path: Path, line: int, sentence: str, form: str, index: str, between: str, different: str
) -> tuple[Dependency, bool]:
    if form not in FORMS:
        raise _malformed(path, line, f"verb_pos {form!r}", " or ".join(FORMS))
    for name, value in zip(_COLUMNS[2:], (index, between, different), strict=True):
        if not value.isascii() or not value.isdigit() or len(value) > _MOST_DIGITS:
            raise _malformed(path, line, f"{name} {value[:_MOST_DIGITS]!r}", "a whole number")
    dependency = Dependency(sentence, int(index) - 1, form, int(different))
    if not 0 <= dependency.place < len(dependency.words):
        raise _malformed(
            path,
            line,
            f"verb_index {index}",
            f"from 1 to {len(dependency.words)}, the number of the sentence's words",
        )
    return dependency, between == different


def _simplified_rows(path: Path, attractors: int) -> Iterator[Dependency]:
    for number, line in enumerate(read_lines(path), start=1):
        parts = line.split("\t")
        if len(parts) != 2:
            raise _malformed(
                path,
                number,
                f"{counted(len(parts), 'column')}",
                "a tag, a tab and the words before the verb",
            )
        form, before = parts
        if form not in FORMS:
            raise _malformed(path, number, f"tag {form!r}", " or ".join(FORMS))
        words = [word for word in before.split(" ") if word]
        yield Dependency(" ".join([*words, form]), len(words), form, attractors)


def _malformed(path: Path, line: int, fault: str, expected: str) -> UserError:
    return UserError(f"{path}, line {line}: {fault}, expected {expected}; {_REMEDY}.")
