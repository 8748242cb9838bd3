"""ut-report's kept records: made from runs, and written into tables and pages."""

import json
import os
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Any

from ut_tf import registry
from ut_tf.bin.frame.command import tell
from ut_tf.bin.frame.flags import FlagError
from ut_tf.bin.frame.shared_flags import FILE_FLAGS
from ut_tf.errors import UserError, counted, did_you_mean
from ut_tf.evaluation.records import Record
from ut_tf.paths import expanded
from ut_tf.storage.files import write_text
from ut_tf.tables.curves import keep_curve
from ut_tf.tables.html import records_page
from ut_tf.tables.kept_tables import KeptTables, written_anew
from ut_tf.tables.layout_files import layout_of, read_tables
from ut_tf.tables.record import ResultRecord, keep_records
from ut_tf.tables.records_from_runs import RecordingOptions, records_of
from ut_tf.tables.rendered import as_markdown
from ut_tf.tables.runs import FoundRun

_COMMAND = "ut-report"
_SUFFIX = ".jsonl"


def are_records(places: Sequence[str]) -> bool:
    """Whether the places are files of records, and not runs.

    Raises:
      FlagError: they are both.
    """
    files = [place for place in places if place.endswith(_SUFFIX)]
    if files and len(files) < len(places):
        other = next(place for place in places if not place.endswith(_SUFFIX))
        raise FlagError(f"{other} and {files[0]}: give run directories, or files of records.")
    return bool(files)


def check(values: Any) -> None:
    """Raises FlagError where flags do not go together."""
    if are_records(values.runs):
        for name in ("record", "table", "row", "metrics", "note", "curves", "by"):
            if values[name].value:
                raise FlagError(f"--{name} needs run directories, not files of records.")
        if values.format not in ("markdown", "md", "html"):
            raise FlagError(f"--format={values.format}: of records, expected md or html.")
        for name in ("tables", "format", "output"):
            if values.page and values[name].present:
                raise FlagError(
                    f"--{name} does not go with --page, whose sections say what is written; leave"
                    " one of the two out."
                )
        return
    if values.page:
        raise FlagError("--page needs files of records, such as results/*.jsonl.")
    if values.record and not values.table:
        raise FlagError("--record needs --table, the name of the table that the figures are of.")
    for name in ("table", "row", "metrics", "note"):
        if values[name].value and not values.record:
            hint = "; did you mean --tables?" if name == "table" else "."
            raise FlagError(f"--{name} needs --record, the file that keeps the figures{hint}")


def record(runs: Sequence[FoundRun], values: Any) -> None:
    """Keeps the figures of runs.

    Raises:
      UserError: a run was refused; those that were not are kept all the same.
    """
    path = expanded(values.record)
    table = layout_of(read_tables(path.parent), values.table)
    metrics = tuple(name.strip() for name in values.metrics.split(",") if name.strip())
    options = RecordingOptions(values.row, metrics, values.note)
    refused: list[str] = []
    for run in runs:
        try:
            _keep(run, records_of(run, table, options, _TypedCommands()), path)
        except UserError as error:
            tell(_COMMAND, f"refused: {error}")
            refused.append(str(run.folder))
    if refused:
        kept = counted(len(runs) - len(refused), "run")
        raise UserError(f"{kept} recorded in {path}; refused: {', '.join(refused)}.")


def _keep(run: FoundRun, records: Sequence[ResultRecord], path: Path) -> None:
    curve = keep_curve(path.parent, run.folder, records[0])
    replaced = keep_records(path, [replace(item, curve=curve) for item in records])
    unknown = [name for name in ("commit", "processor") if getattr(records[0], name) is None]
    tell(
        _COMMAND,
        f"{run.folder}: {counted(len(records), 'figure')} in {path}"
        + (f", {replaced} of them in the place of earlier ones" if replaced else "")
        + (f"; not known: {', '.join(unknown)}" if unknown else ""),
    )


def tables_of_records(values: Any) -> str:
    """The tables of the records as text; empty where they were written into pages."""
    files = [expanded(place) for place in values.runs]
    kept = KeptTables.read(files)
    if values.page:
        for page in values.page:
            _write_page(expanded(page), kept)
        return ""
    names = [name.strip() for name in values.tables.split(",") if name.strip()] or kept.names
    for name in names:
        if name not in kept.names:
            near = did_you_mean(name, kept.names) or "."
            raise UserError(f"no record is of a table {name!r}{near}")
    if values.format == "html":
        page = expanded(values.output).parent if values.output else Path()
        folder = Path(os.path.relpath(os.path.realpath(files[0].parent), os.path.realpath(page)))
        return records_page([kept.render(name) for name in names], folder)
    return "\n\n".join(f"## {name}\n\n{as_markdown(kept.render(name))}" for name in names)


def _write_page(path: Path, kept: KeptTables) -> None:
    try:
        before = path.read_text(encoding="utf-8")
        after = written_anew(before, str(path), kept)
        if after != before:
            write_text(path, after)
    except OSError as error:
        raise UserError(
            f"--page={path} cannot be written: {error.strerror or error}; name another file."
        ) from error
    except UnicodeDecodeError as error:
        raise UserError(
            f"--page={path} is no text in UTF-8 ({error}); name a Markdown file."
        ) from error
    tell(_COMMAND, f"{path}: {'written anew' if after != before else 'up to date'}")


class _TypedCommands:
    """``ut_tf.tables.records_from_runs.Commands`` in the words of this package."""

    def training(self, config: dict[str, Any], train_steps: int | None, warm_start: str) -> str:
        words = [
            "ut-trainer",
            f"--problem={config['problem']}",
            f"--hparams_set={config['hparams_set']}",
        ]
        if config["overrides"]:
            words.append(f"--hparams={config['overrides']}")
        words += _problem_arguments(config["problem_args"])
        if _model_of_set(config["hparams_set"]) not in ("", config["model"]):
            words.append(f"--model={config['model']}")
        if config["seed"]:
            words.append(f"--random_seed={config['seed']}")
        if train_steps is not None:
            words.append(f"--train_steps={train_steps}")
        if warm_start:
            words.append(f"--warm_start_from=runs/{warm_start}")
        words += _own_code(config)
        return shlex.join([*words, f"--output_dir={_folder(config)}"])

    def evaluation(self, config: dict[str, Any], evaluation: Record) -> str:
        words = ["ut-eval", f"--output_dir={_folder(config)}"]
        if evaluation.lengths:
            words.append(f"--lengths={','.join(map(str, evaluation.lengths))}")
        if evaluation.split and evaluation.split != "test" and "," not in evaluation.split:
            words.append(f"--split={evaluation.split}")
        if evaluation.test_problem:
            # The name, and behind it the arguments if any.
            name, _, arguments = evaluation.test_problem.partition(" ")
            words.append(f"--test_problem={name}")
            words += [f"--test_problem_args={arguments}"] if arguments else []
        if evaluation.hparams:
            words.append(f"--hparams={evaluation.hparams}")
        if evaluation.decode:
            words.append(f"--decode_hparams={evaluation.decode}")
        return shlex.join([*words, *_own_code(config)])


def _folder(config: dict[str, Any]) -> str:
    return f"runs/{config['problem']}-{config['hparams_set']}-seed{config['seed']}"


def _own_code(config: dict[str, Any]) -> list[str]:
    """The flag that names the user's own code, if any; without the folders that it lies in."""
    return [f"--usr_dir={PurePath(config['usr_dir']).name}"] if config["usr_dir"] else []


def _problem_arguments(arguments: dict[str, Any]) -> list[str]:
    """The flags that give a problem its arguments."""
    files = {flag.name for flag in FILE_FLAGS} & {
        name for name, value in arguments.items() if value is not None
    }
    given = {
        name: ",".join(value) if isinstance(value, list) else value
        for name, value in arguments.items()
        if name in files
    }
    others = ",".join(
        f"{name}={_argument(value)}" for name, value in arguments.items() if name not in files
    )
    return [
        *(f"--{name}={value}" for name, value in given.items()),
        *([f"--problem_args={others}"] if others else []),
    ]


def _argument(value: Any) -> str:
    if isinstance(value, list):
        return "+".join(map(str, value))
    return value if isinstance(value, str) else json.dumps(value)


def _model_of_set(hparams_set: str) -> str:
    """The model of a registered set; empty where user code that is not imported registers it."""
    try:
        model: str = registry.hparams_sets.get(hparams_set)().model
    except UserError:
        return ""
    return model
