"""ut-datagen: makes or downloads the data of problems, before any training.

``ut-datagen --problem=babi_qa``
"""

import fnmatch
import shlex
import sys
from pathlib import Path
from typing import Any

from ut_tf import registry
from ut_tf.bin.frame import flags
from ut_tf.bin.frame.command import entry_point, import_tensorflow, stdout_to_stderr
from ut_tf.bin.frame.declarations import declaration, shared
from ut_tf.bin.frame.flag_values import check_readable_files, problem_arguments
from ut_tf.bin.frame.flags import FlagError
from ut_tf.bin.frame.registry_page import registry_page
from ut_tf.bin.frame.shared_flags import FILE_FLAGS
from ut_tf.config.training import TrainingConfig
from ut_tf.data.arguments import check_argument_names, name_problem_args, parameters_of
from ut_tf.data.prepared import prepare_data
from ut_tf.errors import UserError
from ut_tf.factories import make_hparams, make_problem, parse_problem_args
from ut_tf.notices import report
from ut_tf.paths import absolute
from ut_tf.storage.folders import default_data_dir, default_tmp_dir

COMMAND, DESCRIPTION, FLAGS = declaration("datagen")


@entry_point(COMMAND, FLAGS)
def main(argv: list[str]) -> None:
    """Runs the command, given the words of its command line."""
    values = flags.parse(COMMAND, DESCRIPTION, FLAGS, argv)
    if values.usr_dir:
        registry.import_user_code(values.usr_dir)
    if values.registry_help:
        print(registry_page(values.registry_help))
        return
    names = _names(values)
    if values.only_list:
        print("\n".join(names))
        return
    names = _without_files(names, values)
    arguments = problem_arguments(values, names)
    data_dir = absolute(values.data_dir or default_data_dir())
    tmp_dir = absolute(values.tmp_dir or default_tmp_dir())
    for name in names:
        check_argument_names(name, arguments)
        check_readable_files(name, arguments, data_dir)
    ignored = [
        f"--{name}" for name in ("num_shards", "max_cases") if values[name].value is not None
    ]
    if ignored:
        report(
            f"{COMMAND}: {' and '.join(ignored)} without effect here: data is always prepared"
            " whole, in one piece"
        )
    training = _training(values)
    import_tensorflow()
    for name in names:
        problem = make_problem(name, _with_own_flags(name, arguments, values), training)
        with stdout_to_stderr(), name_problem_args(arguments):
            prepare_data(problem, data_dir, tmp_dir)
        print(f"{name}: data in {data_dir}")
    print(f"\n{_next_command(names[0], values, data_dir)}")


def _training(values: Any) -> TrainingConfig | None:
    """The training hyperparameters that were asked for; None where none were."""
    if values.hparams and not values.hparams_set:
        raise FlagError(f"--hparams={values.hparams} overrides a set: name it with --hparams_set.")
    if not values.hparams_set:
        return None
    return make_hparams(values.hparams_set, values.hparams).training


def _next_command(problem: str, values: Any, data_dir: Path) -> str:
    given = [
        flag.name
        for flag in (*FILE_FLAGS, *shared("problem_args", "hparams"))
        if values[flag.name].value
    ]
    hparams_set = values.hparams_set or next(iter(registry.sets_to_begin_with(problem)), "<set>")
    words = [f"--problem={problem}", f"--hparams_set={hparams_set}"]
    if values.data_dir:
        words.append(f"--data_dir={data_dir}")
    words += [f"--{name}={values[name].value}" for name in given]
    return "next: ut-trainer " + " ".join(
        word if word.endswith("=<set>") else shlex.quote(word) for word in words
    )


def _names(values: Any) -> list[str]:
    if not values.problem:
        if values.only_list:
            return registry.problems.names()
        raise FlagError(f"--problem is missing: see {COMMAND} --only_list for the names.")
    matched: list[str] = []
    for part in filter(None, (part.strip() for part in values.problem.split(","))):
        matching = fnmatch.filter(registry.problems.names(), part) if "*" in part else [part]
        if not matching:
            raise UserError(
                f"--problem={part} matches no problem: see {COMMAND} --only_list for the names."
            )
        matched += [name for name in matching if name not in matched]
    for name in matched:
        registry.problems.check(name)
    return matched


def _without_files(names: list[str], values: Any) -> list[str]:
    """The names without a pattern's matches that need files, where none are given; says which."""
    if values.source_files or "source_files" in parse_problem_args(values.problem_args):
        return names
    asked = [part.strip() for part in values.problem.split(",")]
    skipped = [name for name in names if _needs_files(name) and name not in asked]
    if not skipped or len(skipped) == len(names):
        return names
    told = " and ".join(skipped)
    report(f"{COMMAND}: skips {told}, which need files of your own (--source_files)")
    return [name for name in names if name not in skipped]


def _needs_files(name: str) -> bool:
    return "source_files" in registry.problems.file_arguments(name)


def _with_own_flags(name: str, arguments: dict[str, Any], values: Any) -> dict[str, Any]:
    """The arguments with those that have a flag here, where the problem takes them."""
    given = {"seed": values.random_seed, "beam_pipeline_options": values.beam_pipeline_options}
    given = {argument: value for argument, value in given.items() if value is not None}
    parameters = parameters_of(registry.problems.get(name)) if given else frozenset()
    if "seed" in given and "seed" not in parameters:
        seed = values.random_seed
        raise UserError(
            f"--random_seed={seed}: the data of {name} has no seed; give --random_seed to"
            " ut-trainer, which decides its order."
        )
    if "beam_pipeline_options" in given and "beam_pipeline_options" not in parameters:
        raise UserError(
            f"--beam_pipeline_options: {name} is not prepared by Apache Beam; leave the flag out."
        )
    return {**arguments, **given}


if __name__ == "__main__":
    sys.exit(main())
