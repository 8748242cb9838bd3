"""The flags that name files, and the arguments of the library that flags set.

The library's errors name arguments in backticks, "`seed`=-1: expected ..."; ``in_flags`` turns them
into what is typed, "--random_seed=-1: expected ...".
"""

import re
from collections.abc import Collection

from ut_tf.bin.frame.declarations import shared

# Arguments whose flag has another name.
ARGUMENT_FLAGS = {
    "seed": "random_seed",
    "eval_frequency": "local_eval_frequency",
    "destination": "avg_dir",
}

FILE_FLAGS = shared(
    *("source_files", "target_files", "dev_source_files", "dev_target_files"),
    *("test_source_files", "test_target_files", "vocab_file"),
)
"""Files of one's own: arguments of the problems that read them."""
_FILE_ARGUMENTS = frozenset(flag.name for flag in FILE_FLAGS)
BOTH = "both"
"""The default of --bleu_variant."""


def in_flags(
    message: str, flags: Collection[str], hyperparameters: Collection[str] = frozenset()
) -> str:
    """A message of the library in a command's words.

    `` `name` `` becomes ``--name`` where the command has such a flag; `` `name`=value `` becomes
    ``--hparams=name=value`` for a hyperparameter, and `` `problem_args.name`=value `` becomes
    ``--problem_args=name=value``. All other names lose their backticks.

    Args:
      message: of a UserError or a warning.
      flags: names of the command's flags.
      hyperparameters: names that the command's --hparams takes; empty where it has no such flag.
    """

    def shown(match: re.Match[str]) -> str:
        of_problem, name, equals = match.groups()
        if of_problem:
            candidates = [name] if name in _FILE_ARGUMENTS else []
        else:
            candidates = [ARGUMENT_FLAGS.get(name, name), name]
        flag = next((candidate for candidate in candidates if candidate in flags), None)
        if flag is not None:
            return f"--{flag}{equals}"
        if equals and of_problem and "problem_args" in flags:
            return f"--problem_args={name}="
        if equals and not of_problem and name in hyperparameters:
            return f"--hparams={name}="
        return f"{name}{equals}"

    return re.sub(r"`(problem_args\.)?([a-z][a-z0-9_]*)`(=?)", shown, message)
