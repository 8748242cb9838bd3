"""Where the installed commands begin: Ctrl-C ends a command in one line while Python still imports
it, and while Python ends.

Nothing that takes time is imported here, since Ctrl-C is a trace until a command's function runs.
"""

from __future__ import annotations

import importlib
import os
import signal
from collections.abc import Callable

EXIT_INTERRUPTED = 130


def _command(module: str) -> Callable[[], int]:
    """The function that a command's script calls; its result is the exit status."""
    name = f"ut-{module.replace('_', '-')}"

    def end(*_: object) -> None:
        # An exception would be lost in a callback of the import system, and shown with its trace.
        os.write(2, f"{name}: interrupted\n".encode())
        os._exit(EXIT_INTERRUPTED)

    def run() -> int:
        former = signal.getsignal(signal.SIGINT)
        # Below nohup and in the background of a shell's script it is ignored.
        is_ours = former is signal.default_int_handler
        if is_ours:
            signal.signal(signal.SIGINT, end)
        main: Callable[[], int] = importlib.import_module(f"ut_tf.bin.{module}").main
        if is_ours:
            signal.signal(signal.SIGINT, former)
        status = main()
        if is_ours:
            signal.signal(signal.SIGINT, end)
        return status

    return run


avg_checkpoints = _command("avg_checkpoints")
bleu = _command("bleu")
datagen = _command("datagen")
decoder = _command("decoder")
eval = _command("eval")
exporter = _command("exporter")
import_t2t = _command("import_t2t")
insights = _command("insights")
query = _command("query")
report = _command("report")
serve = _command("serve")
show = _command("show")
sweep = _command("sweep")
trainer = _command("trainer")
translate_all = _command("translate_all")
