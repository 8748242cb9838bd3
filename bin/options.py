"""The flags that several commands share, and the arguments of the library that they set.

The library's errors name arguments in backticks, "`seed`=-1: expected ..."; ``in_flags`` turns them
into what is typed, "--random_seed=-1: expected ...".
"""

from __future__ import annotations

import re
from collections.abc import Collection

# Arguments whose flag has another name.
ARGUMENT_FLAGS = {
    "seed": "random_seed",
    "eval_frequency": "local_eval_frequency",
}


def in_flags(
    message: str, flags: Collection[str], hyperparameters: Collection[str] = frozenset()
) -> str:
    """A message of the library in a command's words.

    `` `name` `` becomes ``--name`` where the command has such a flag, and `` `name`=value ``
    becomes ``--hparams=name=value`` for a hyperparameter; all other names lose their backticks.

    Args:
      message: of a UserError or a warning.
      flags: names of the command's flags.
      hyperparameters: names that the command's --hparams takes; empty where it has no such flag.
    """

    def shown(found: re.Match[str]) -> str:
        name, equals = found[1], found[2]
        flag = next((flag for flag in (ARGUMENT_FLAGS.get(name), name) if flag in flags), None)
        if flag is not None:
            return f"--{flag}{equals}"
        return f"--hparams={name}=" if equals and name in hyperparameters else f"{name}{equals}"

    return re.sub(r"`([a-z][a-z0-9_]*)`(=?)", shown, message)
