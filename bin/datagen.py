"""ut-datagen: makes or downloads the data of problems, before any training.

``ut-datagen --problem=babi_qa``
"""

from __future__ import annotations

import fnmatch
import inspect
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ut_tf import registry
from ut_tf.bin import flags
from ut_tf.bin.command import execute, import_tensorflow, registry_page, stdout_to_stderr
from ut_tf.bin.flags import Flag, FlagError
from ut_tf.data.preparation import prepare_data
from ut_tf.errors import UserError
from ut_tf.run import default_data_dir, default_tmp_dir, make_problem, parse_problem_args

COMMAND = "ut-datagen"
DESCRIPTION = """ut-datagen: makes or downloads the data of problems. ut-trainer does so by itself; this command does it beforehand.

  ut-datagen --problem=babi_qa
  ut-datagen --problem='babi_*' --only_list"""

FLAGS = (
    Flag("problem", "Registered name; several with commas between, or a pattern such as 'babi_*'.", "What", shown_default="needed"),
    flags.PROBLEM_ARGS,
    Flag("random_seed", "Seed of generated data, for problems whose data has one.", "What", "integer", shown_default="the problem's"),
    Flag("only_list", "Prints the names of the problems and prepares nothing.", "What", "boolean", default=False),
    Flag("num_shards", "Accepted for tensor2tensor's users: has no effect.", "What", "integer", shown_default="no effect"),
    Flag("max_cases", "Accepted for tensor2tensor's users: has no effect.", "What", "integer", shown_default="no effect"),
    flags.DATA_DIR,
    flags.TMP_DIR,
    flags.USR_DIR,
    flags.REGISTRY_HELP,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit status."""
    return execute(COMMAND, lambda: _main(flags.command_line(argv)))


def _main(argv: list[str]) -> None:
    values = flags.parse(COMMAND, DESCRIPTION, FLAGS, argv)
    if values.usr_dir:
        registry.import_user_code(values.usr_dir)
    if values.registry_help:
        print(registry_page())
        return
    names = _names(values)
    if values.only_list:
        print("\n".join(names))
        return
    arguments = parse_problem_args(values.problem_args)
    data_dir = Path(values.data_dir or default_data_dir()).expanduser().absolute()
    tmp_dir = Path(values.tmp_dir or default_tmp_dir()).expanduser().absolute()
    ignored = [f"--{name}" for name in ("num_shards", "max_cases") if values[name].value is not None]
    if ignored:
        print(f"{COMMAND}: {' and '.join(ignored)} without effect here: data is always prepared whole, in one piece", file=sys.stderr)
    import_tensorflow()
    for name in names:
        with stdout_to_stderr():
            prepare_data(make_problem(name, _with_seed(name, arguments, values.random_seed)), data_dir, tmp_dir)
        print(f"{name}: data in {data_dir}")
    example = names[0]
    print(f"\nnext: ut-trainer --problem={example} --hparams_set=<set>" + (f" --data_dir={data_dir}" if values.data_dir else ""))


def _names(values: Any) -> list[str]:
    if not values.problem:
        if values.only_list:
            return registry.problems.names()
        raise FlagError(f"--problem is missing: see {COMMAND} --only_list for the names.")
    found: list[str] = []
    for part in filter(None, (part.strip() for part in values.problem.split(","))):
        matching = fnmatch.filter(registry.problems.names(), part) if "*" in part else [part]
        if not matching:
            raise UserError(f"--problem={part} matches no problem: see {COMMAND} --only_list for the names.")
        found += [name for name in matching if name not in found]
    for name in found:
        registry.problems.check(name)
    return found


def _with_seed(name: str, arguments: dict[str, Any], seed: int | None) -> dict[str, Any]:
    if seed is None:
        return arguments
    parameters = inspect.signature(registry.problems.get(name)).parameters
    if "seed" not in parameters:
        raise UserError(f"--random_seed={seed}: the data of {name} has no seed; give --random_seed to ut-trainer, which decides its order.")
    return {**arguments, "seed": seed}


if __name__ == "__main__":
    sys.exit(main())
