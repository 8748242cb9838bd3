"""The values of flags that several commands share, checked and read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from absl import flags as absl_flags

from ut_tf import registry
from ut_tf.bin.frame.flags import FlagError, integers
from ut_tf.bin.frame.shared_flags import BOTH, FILE_FLAGS
from ut_tf.data.arguments import file_names, file_paths
from ut_tf.data.prepared import check_sources
from ut_tf.data.problem import Problem
from ut_tf.errors import UserError, did_you_mean
from ut_tf.factories import parse_problem_args
from ut_tf.hparams.catalogue import HPARAMS_SETS
from ut_tf.notices import warn
from ut_tf.paths import expanded
from ut_tf.problems.catalogue import PROBLEMS
from ut_tf.run import Run
from ut_tf.search.config import DecodeConfig

# A training that removes one of the chosen checkpoints this often is too fast for a mean.
_MOST_CHOICES = 10


def made_for_others(problem: str, hparams_set: str) -> str:
    """A line about a recipe that was chosen for problems of another kind; empty: it was not, or the
    problem or the set is a user's.
    """
    begin = registry.sets_to_begin_with(problem)
    kind = HPARAMS_SETS[hparams_set].group if hparams_set in HPARAMS_SETS else ""
    if not begin or kind in ("", "sizes"):
        return ""
    if kind in (PROBLEMS[problem].group, *(HPARAMS_SETS[name].group for name in begin)):
        return ""
    return (
        f"goes on with {hparams_set}, whose values were chosen for another kind of problem"
        f" ({HPARAMS_SETS[hparams_set].description}); for {problem} there is"
        f" --hparams_set={begin[0]}"
    )


def check_readable_files(problem: str, arguments: Mapping[str, Any], data_dir: Path) -> None:
    """Raises UserError where a file in the arguments of a problem that FILE_FLAGS stand for cannot
    be read and was not prepared in `data_dir`; arguments that the problem does not declare as files
    are left to it.
    """
    files = registry.problems.file_arguments(problem)
    values = [
        arguments[flag.name]
        for flag in FILE_FLAGS
        if flag.name in files and arguments.get(flag.name)
    ]
    names = [name for value in values for name in (value if isinstance(value, list) else [value])]
    paths = [path for name in names if isinstance(name, str) for path in file_paths([name])]
    try:
        check_sources(paths, data_dir)
    except UserError as error:
        if len(paths) == 1:
            raise
        raise UserError(f"{error} Commas divide the names of files.") from error


def problem_arguments(values: absl_flags.FlagValues, problems: Sequence[str]) -> dict[str, Any]:
    """The arguments of the problems in --problem_args and FILE_FLAGS; the names of files as
    absolute paths.

    Raises:
      FlagError: an argument is given in both ways, a flag names no file, or one of the problems
        reads no such files, or cannot do without them.
    """
    arguments = parse_problem_args(values.problem_args)
    given = {
        flag.name: str(values[flag.name].value) for flag in FILE_FLAGS if values[flag.name].value
    }
    for name, text in given.items():
        if name in arguments:
            raise FlagError(f"--{name} and --problem_args both give {name}: leave one of them out.")
        paths = list(map(str, file_paths(text)))
        if not paths or (name == "vocab_file" and len(paths) > 1):
            raise FlagError(
                f"--{name}={text}: expected the name of a file{' alone' if paths else ''}."
            )
        arguments[name] = paths if name.endswith("_files") else paths[0]
    for problem in (name for name in problems if name in PROBLEMS):
        _check_files(problem, given, arguments)
    return arguments


def _check_files(problem: str, given: Iterable[str], arguments: Mapping[str, Any]) -> None:
    """Raises FlagError where the flags for files and a problem of this project do not go together;
    one of the user's is asked later.
    """
    taken = registry.problems.file_arguments(problem)
    reads_files = "source_files" in taken
    for name in given:
        if name not in taken:
            raise FlagError(
                f"--{name}: problem {problem} takes no such files; leave the flag out, or give"
                f" {_takers(name)}."
            )
    for part in ("dev_", "test_"):
        if f"{part}target_files" in arguments and f"{part}source_files" not in arguments:
            raise FlagError(
                f"--{part}source_files is missing: --{part}target_files holds the"
                f" {_TARGETS.get(problem, 'translations')} of its lines; give both."
            )
    if reads_files and "source_files" not in arguments:
        raise FlagError(
            f"--source_files is missing: problem {problem} reads your own files; give"
            f" {_WANTED.get(problem, _PAIRS)}."
        )


def check_split(split: str | None, problem: str, with_train: bool = False) -> None:
    """Raises UserError where a problem of this project has no such split; one of the user's is
    asked later.

    Args:
      split: its name; None: the problem's own choice.
      problem: its name.
      with_train: whether training data is read as well.
    """
    splits = [name for name in Problem.splits if with_train or name != "train"]
    if split and problem in PROBLEMS and split not in splits:
        raise UserError(
            f"`split`={split}: problem {problem} has the splits {', '.join(splits)}; name one of"
            " them."
        )


_PAIRS = (
    "--source_files and --target_files, or --source_files alone for lines of source, tab, target"
)
_WANTED = {
    "classify_files": (
        "--source_files with lines of label, tab, text, or texts with --target_files for the labels"
    ),
    "lm_files": "--source_files with plain text",
    "aligned_files": "--source_files with question, tab, answer, of equal length",
    "pairs_files": "--source_files with question, tab, answer",
}
_TARGETS = {"classify_files": "labels"}


def _takers(flag: str) -> str:
    """The problems of own files that take a flag, as --problem has them."""
    names = [
        name for name in registry.problems.names() if flag in registry.problems.file_arguments(name)
    ]
    return " or ".join(f"--problem={name}" for name in names)


def decode_config(text: str) -> DecodeConfig:
    """The options in --decode_hparams; user code with a strategy of its own must be loaded.

    Raises:
      FlagError: lists every mistake.
    """
    try:
        return DecodeConfig.from_text(text)
    except UserError as error:
        raise FlagError(f"--decode_hparams: {error}") from error


def chosen_variants(name: str) -> tuple[Any, ...]:
    """The variants that --bleu_variant names, uncased first, as tensor2tensor prints them."""
    choices = {"cased": ("cased",), "uncased": ("uncased",), BOTH: ("uncased", "cased")}
    if name not in choices:
        raise FlagError(
            f"--bleu_variant={name}: expected cased, uncased or both{did_you_mean(name, choices)}"
        )
    return choices[name]


def files(text: str) -> list[Path]:
    """The files in "one,two", where a file that is there counts before a comma that divides.

    Raises:
      UserError: one of several is not there.
    """
    paths = [expanded(name) for name in file_names(text)]
    for path in paths:
        if len(paths) > 1 and not path.exists():
            raise UserError(
                f"{path} cannot be read (No such file or directory): check its name and"
                " permissions. Commas divide the names of files."
            )
    return paths


def check_choice(values: Any) -> None:
    """Raises FlagError where --n, --best and --checkpoints cannot be."""
    for name in ("n", "best"):
        if values[name].value is not None and values[name].value < 1:
            raise FlagError(f"--{name}={values[name].value}: expected at least 1.")
    integers(values.checkpoints or "", "checkpoints")
    given = [name for name in ("n", "best", "checkpoints") if values[name].value is not None]
    if len(given) > 1:
        raise FlagError(
            f"--{given[0]} and --{given[1]} each say which checkpoints to average: give one of"
            " them."
        )


def chosen_steps(run: Run, values: Any) -> list[int]:
    """The steps of the checkpoints that the flags mean, ascending; imports TensorFlow.

    Raises:
      UserError: there are fewer than asked for.
    """
    from ut_tf.training.averaging import best_steps, last_steps

    if values.checkpoints:
        return sorted({*integers(values.checkpoints, "checkpoints")})
    return best_steps(run, values.best) if values.best else last_steps(run, values.n)


def with_chosen_steps(
    run: Run, values: Any, use: Callable[[list[int]], Path]
) -> tuple[list[int], Path]:
    """``chosen_steps``, and what `use` makes of them.

    Where a training removes one of them meanwhile that the flags do not name, they are chosen
    again, with a warning.
    """
    from ut_tf.storage.checkpoints import CheckpointGone

    tries = 1 if values.checkpoints else _MOST_CHOICES
    while True:
        tries -= 1
        try:
            steps = chosen_steps(run, values)
            return steps, use(steps)
        except CheckpointGone as gone:
            if not tries:
                raise
            warn(f"{gone} The checkpoints are chosen again.")


def default_destination(source: Path, values: Any, steps: list[int]) -> Path:
    """The folder beside the run's that is named after the choice."""
    if values.checkpoints:
        return source.with_name(f"{source.name}-avg{'+'.join(map(str, steps))}")
    return source.with_name(f"{source.name}-avg{'best' if values.best else ''}{len(steps)}")
