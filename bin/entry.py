"""Where the installed commands begin: Ctrl-C ends a command in one line while Python still imports
it, and while Python ends.

Nothing that takes time is imported here, since Ctrl-C is a trace until a command's function runs.
"""

import importlib
import os
import signal
import sys
from collections.abc import Callable

EXIT_INTERRUPTED = 130


class Ending:
    """The handler of Ctrl-C that ends the process in one line, before and after ``execute``.

    Args:
      command: its name.
    """

    def __init__(self, command: str) -> None:
        self._line = f"{command}: interrupted\n".encode()

    def __call__(self, *_: object) -> None:
        # An exception would be lost in a callback of the import system, and shown with its trace.
        try:
            os.write(sys.stderr.fileno(), self._line)
        finally:  # Standard error may be closed.
            os._exit(EXIT_INTERRUPTED)


def _command(module: str, name: str = "") -> Callable[[], int]:
    """The function that a command's script calls; its result is the exit status."""
    name = name or f"ut-{module.replace('_', '-')}"

    def run() -> int:
        # Below nohup and in the background of a shell's script it is ignored.
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, Ending(name))
        main: Callable[[], int] = importlib.import_module(f"ut_tf.bin.{module}").main
        return main()

    return run


avg_checkpoints = _command("avg_checkpoints")
bleu = _command("bleu")
datagen = _command("datagen")
decoder = _command("decoder")
eval = _command("eval")
exporter = _command("exporter")
import_run = _command("import_run", "ut-import")
import_t2t = _command("import_t2t")
insights = _command("insights")
query = _command("query")
report = _command("report")
serve = _command("serve")
show = _command("show")
sweep = _command("sweep")
trainer = _command("trainer")
