"""Gives every command what it cannot answer: it refuses in one sentence and changes nothing.

How it is used::

    python benchmarks/faults/commands.py                  # all cases
    python benchmarks/faults/commands.py --seconds=30     # a sample, the same for a seed
    python benchmarks/faults/commands.py --about=servers,plans --no_good_lines

The lines are made from the flags that the commands declare (bad_words.py) and written by hand
(bad_values.py, bad_files.py). All run in one process, in which TensorFlow is imported once. Refused
means: exit status 1 or 2, one line on standard error that names the command (warnings may stand
before it), nothing on standard output, no trace, no report of an error that was not foreseen, the
run directory as it was, and no new one. A line of JSON for each kind of case.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import random
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]

import tiny  # noqa: E402
from bad_values import by_hand  # noqa: E402
from bad_words import COMMANDS, Case, good_lines, of_flags  # noqa: E402
from outcomes import Call, Counts, Outcome, called, of_command  # noqa: E402
from parsers import GOLDEN  # noqa: E402

_LONGEST = 30.0


def make(folder: Path) -> None:
    """Makes the runs and files that the lines name."""
    from tests.bin.tiny_runs import translation_run

    tiny.train(folder)
    export = [f"--output_dir={folder / 'run'}", f"--export_dir={folder / 'export'}"]
    if (made := called(main_of("exporter"), export)).status != 0:
        raise RuntimeError(made.errors)
    (folder / "ende").mkdir()
    translation_run(folder / "ende")
    shutil.copytree(GOLDEN, folder / "t2t")
    (folder / "questions.txt").write_text("1 Mary moved to the kitchen.\n2 Where is Mary?\n")
    (folder / "lines.txt").write_text("the number 1\n")
    (folder / "file").write_text("a file\n")
    (folder / "binary").write_bytes(b"\xff\xfe\x00")
    (folder / "loop").symlink_to(folder / "loop")


def main_of(command: str) -> Callable[[list[str]], int]:
    """The main function of a command."""
    main: Callable[[list[str]], int] = importlib.import_module(f"ut_tf.bin.{command}").main
    return main


def call(case: Case, folder: Path, server: str) -> Call:
    """What the command makes of a case."""
    places = {"BINARY": folder / "binary", "SERVER": server}
    words = []
    for word in case.argv:
        for name, place in places.items():
            word = word.replace(name, str(place)) if word.endswith(f"={name}") else word
        words.append(word)
    set_here = {name: value for name, value in case.environment.items() if value is not None}
    with mock.patch.dict(os.environ, set_here):
        for name, value in case.environment.items():
            if value is None:
                os.environ.pop(name, None)
        return called(main_of(case.command), words, _LONGEST)


def judged(case: Case, folder: Path, server: str) -> Outcome:
    """Calls a case, and says whether it was refused and changed nothing."""
    before = _state(folder)
    answer = call(case, folder, server)
    outcome = of_command(answer)
    if outcome.kind not in ("refused", "traceback"):
        outcome = Outcome("changed", f"answered: {answer.output[-300:]}{answer.errors[-300:]}")
    elif outcome.kind == "refused" and answer.output:
        outcome = Outcome("changed", f"standard output: {answer.output[:300]}\n{answer.errors}")
    elif outcome.kind == "refused" and (after := _state(folder)) != before:
        outcome = Outcome("changed", f"files: {sorted(set(after) ^ set(before))}\n{answer.errors}")
    _clear(folder)
    return outcome


def _state(folder: Path) -> list[tuple[str, int, int]]:
    """Files of the run, and what a command writes."""
    paths = [*(folder / "run").rglob("*"), *folder.glob("new*"), *(folder / "new").rglob("*")]
    return [
        (str(path), state.st_size, state.st_mtime_ns)
        for path in paths
        if path.is_file() or path.name == "new"
        for state in [path.stat()]
        # Prepared data and locks may stay.
        if not path.name.endswith(".lock")
    ]


def _clear(folder: Path) -> None:
    for path in folder.glob("new*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def check_good_lines(folder: Path, server: str, commands: set[str]) -> Counts:
    """Counts the commands that answer the line that the bad ones are made of: one that refused it
    would refuse all of them for another reason.
    """
    counts = Counts("good lines, answered")
    for command, line in good_lines(folder).items():
        # ut-serve would answer until it is stopped.
        if command == "serve" or command not in commands:
            continue
        answer = call(Case(command, tuple(line), ""), folder, server)
        outcome = of_command(answer)
        is_answered = outcome.kind in ("same", "told")
        counts.add(outcome if is_answered else Outcome("traceback", answer.errors), command)
        _clear(folder)
    return counts


class _Handler(BaseHTTPRequestHandler):
    """Answers ut-query as a server of a model of one text, named "model", would."""

    def do_GET(self) -> None:
        signature = {"inputs": {"inputs": {}}, "outputs": {"outputs": {}}}
        named = {"signature_def": {"serving_default": signature}}
        self._answer({"metadata": {"signature_def": named}})

    def parse_request(self) -> bool:
        is_known = super().parse_request()
        if is_known and not self.path.startswith(("/v1/models/model/", "/v1/models/model:")):
            self.send_error(404)
            return False
        return is_known

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        count = len(json.loads(self.rfile.read(length)).get("instances", [1]))
        self._answer({"predictions": ["a"] * count})

    def log_message(self, *_: object) -> None:
        pass

    def _answer(self, values: object) -> None:
        content = json.dumps(values).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


@contextlib.contextmanager
def served() -> Iterator[str]:
    """A server for ut-query; gives its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()


def measure(folder: Path, arguments: argparse.Namespace) -> list[Counts]:
    """Calls the cases, in a seeded order, until the time is over."""
    make(folder)
    about = set(arguments.about.split(",")) if arguments.about else None
    commands = set(arguments.commands.split(","))
    cases = [
        case
        for case in (*of_flags(folder), *by_hand(folder))
        if case.command in commands and (about is None or case.about in about)
    ]
    random.Random(arguments.seed).shuffle(cases)
    counts: dict[str, Counts] = {}
    with served() as server:
        if arguments.good_lines:
            counts["good"] = check_good_lines(folder, server, commands)
        deadline = time.monotonic() + arguments.seconds
        for case in cases[: arguments.inputs]:
            if time.monotonic() > deadline:
                break
            began = time.monotonic()
            outcome = judged(case, folder, server)
            counts.setdefault(case.about, Counts(case.about)).add(outcome, str(case))
            if (took := time.monotonic() - began) > arguments.slow:
                print(f"{took:.1f} s: {case}", file=sys.stderr, flush=True)
    return sorted(counts.values(), key=lambda each: each.fault)


def main() -> None:
    command = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    command.add_argument("--inputs", type=int, default=100_000, help="cases at most")
    command.add_argument("--seconds", type=float, default=900.0, help="for the cases, at most")
    command.add_argument("--seed", type=int, default=0, help="of the order")
    command.add_argument("--commands", default=",".join(COMMANDS), help=",".join(COMMANDS))
    command.add_argument("--about", default="", help="kinds of cases; all without it")
    command.add_argument("--slow", type=float, default=5.0, help="seconds of a case to tell")
    command.add_argument("--no_good_lines", dest="good_lines", action="store_false")
    arguments = command.parse_args()
    os.environ.update(CUDA_VISIBLE_DEVICES="-1", TF_CPP_MIN_LOG_LEVEL="3")
    # What reads standard input must not wait for it.
    sys.stdin = open(os.devnull)  # noqa: SIM115
    with tempfile.TemporaryDirectory() as folder:
        all_counts = measure(Path(folder), arguments)
    for counts in all_counts:
        print(counts.report())
    tried = sum(sum(counts.kinds.values()) for counts in all_counts)
    short = sum(len(counts.short) for counts in all_counts)
    print(json.dumps({"fault": "all", "tried": tried, "short": short}), flush=True)
    sys.exit(short > 0)


if __name__ == "__main__":
    main()
