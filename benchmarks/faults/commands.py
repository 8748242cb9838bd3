"""Gives every command lines that it cannot answer: it refuses in one line and changes nothing.

How it is used::

    python benchmarks/faults/commands.py                  # all lines
    python benchmarks/faults/commands.py --seconds=30     # a sample, the same for a seed

All run in one process, in which TensorFlow is imported once. Refused means: exit status 1 or 2, one
line on standard error that names the command (warnings may stand before it), nothing on standard
output, the run directory as it was, and no new one. The good lines, of which the bad ones are made,
must be answered: a command that refused its good line would refuse all others for another reason.
"""

import importlib
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]

import tiny  # noqa: E402
from bad_lines import Case, bad_lines, good_lines  # noqa: E402
from frame import Counts, Outcome, Plan, call_command, of_command, run  # noqa: E402
from parsers import GOLDEN  # noqa: E402

_LONGEST = 30.0
_ANSWERED = "good lines, answered"


def campaign(folder: Path, plan: Plan) -> Iterator[Counts]:
    """Yields the counts of each kind of bad line."""
    from tests.serving.python_model import PythonModel, served

    make(folder)
    signature = ["inputs"], lambda examples: [{"outputs": "a"} for _ in examples]
    with served(PythonModel({"serving_default": signature}), "model") as server:
        counts = (
            {_ANSWERED: call_good_lines(folder, server.address)} if plan.chosen([_ANSWERED]) else {}
        )
        cases = [case for case in bad_lines(folder, server.address) if plan.only in case.about]
        plan.generator("order").shuffle(cases)
        deadline = time.monotonic() + plan.seconds
        for case in cases:
            if time.monotonic() > deadline:
                break
            outcome = judge_line(case, folder)
            counts.setdefault(case.about, Counts(case.about)).add(outcome, str(case))
    yield from counts.values()


def make(folder: Path) -> None:
    """Makes the runs and files that the lines name."""
    from tests.bin.tiny_runs import translation_run

    tiny.make(folder)
    export = [f"--output_dir={folder / 'run'}", f"--export_dir={folder / 'export'}"]
    if (made := call_command(main_of("exporter"), export)).status != 0:
        raise RuntimeError(made.errors)
    (folder / "ende").mkdir()
    translation_run(folder / "ende")
    shutil.copytree(GOLDEN, folder / "t2t")
    (folder / "questions.txt").write_text("1 Mary moved to the kitchen.\n2 Where is Mary?\n")
    (folder / "lines.txt").write_text("the number 1\n")
    (folder / "file").write_text("a file\n")
    (folder / "loop").symlink_to(folder / "loop")


def main_of(command: str) -> Callable[[list[str]], int]:
    """The main function of a command."""
    main: Callable[[list[str]], int] = importlib.import_module(f"ut_tf.bin.{command}").main
    return main


def judge_line(case: Case, folder: Path) -> Outcome:
    """Calls a bad line, which must be refused and change nothing."""
    before = _state(folder)
    answer = call_command(main_of(case.command), list(case.argv), _LONGEST)
    outcome, after = of_command(answer), _state(folder)
    _clear(folder)
    if outcome.kind in ("same", "told"):
        return Outcome("short", f"answered: {answer.output[-300:]}{answer.errors[-300:]}")
    if outcome.kind == "refused" and answer.output:
        return Outcome("short", f"standard output: {answer.output[:300]}\n{answer.errors}")
    if outcome.kind == "refused" and after != before:
        return Outcome("short", f"files: {sorted(after ^ before)}\n{answer.errors}")
    return outcome


def call_good_lines(folder: Path, server: str) -> Counts:
    """Calls the good lines, but for that of ut-serve, which would answer until it is stopped."""
    counts = Counts(_ANSWERED)
    for command, line in good_lines(folder, server).items():
        if command != "serve":
            answer = call_command(main_of(command), line)
            outcome = of_command(answer) if answer.status == 0 else Outcome("short", answer.errors)
            counts.add(outcome, command)
            _clear(folder)
    return counts


def _state(folder: Path) -> set[tuple[str, int, int]]:
    """Files of the run, and what a command writes; locks may stay."""
    paths = [*(folder / "run").rglob("*"), *folder.glob("new*"), *(folder / "new").rglob("*")]
    return {
        (str(path), state.st_size, state.st_mtime_ns)
        for path in paths
        if path.name == "new" or (path.is_file() and not path.name.endswith(".lock"))
        for state in [path.stat()]
    }


def _clear(folder: Path) -> None:
    for path in folder.glob("new*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()


if __name__ == "__main__":
    run(__doc__, campaign, seconds=300.0)
