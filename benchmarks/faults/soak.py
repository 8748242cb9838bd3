"""Lets the commands work for long: memory and descriptors stay flat, and no answer is out of order.

How it is used::

    python benchmarks/faults/soak.py                       # all parts
    python benchmarks/faults/soak.py --parts=serve --requests=5000
    python benchmarks/faults/soak.py --seconds=15 --lines=3000 --requests=1500

``ut-trainer`` trains for --seconds with a validation every --eval_frequency updates, ``ut-decoder``
reads --lines lines from a pipe, ``ut-serve`` answers --requests requests; all with the smallest
networks. The memory of the process is looked at all the while. A line of JSON for each part: the
memory at a third and at the end, its slope between them by least squares in MB per 1,000 updates,
lines or requests, and the open descriptors. The slope of a process that leaks nothing tends to 0
with the length of the run, since caches fill first.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]

import tiny  # noqa: E402

PARTS = ("trainer", "decoder", "serve")
_LOOKS_PER_SECOND = 2.0
_MOST_GROWTH = 0.15
_DISTINCT = 97
# With fewer, answers out of order could go unseen.
_LEAST_ANSWERS = 10
_LARGER = 4.0


class Look(NamedTuple):
    """A process at one moment.

    Fields:
      count: updates, lines or requests so far.
      memory: resident megabytes.
      descriptors: open files.
    """

    count: int
    memory: float
    descriptors: int


@dataclass
class Watch:
    """Looks at a process until ``end``.

    Args:
      process: its id.
      counted: how far it is.
    """

    process: int
    counted: Callable[[], int]
    looks: list[Look] = field(default_factory=list)
    _ended: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Ends the looks."""
        self._ended.set()
        self._thread.join()

    def _look(self) -> None:
        place = Path(f"/proc/{self.process}")
        while not self._ended.wait(1 / _LOOKS_PER_SECOND):
            try:
                resident = re.search(r"VmRSS:\s*(\d+) kB", (place / "status").read_text())
                open_files = len(os.listdir(place / "fd"))
            except OSError:
                return
            if resident and (count := self.counted()):
                self.looks.append(Look(count, int(resident[1]) / 1024, open_files))

    def report(self, part: str, unit: str, more: dict[str, Any]) -> dict[str, Any]:
        """The figures of the looks after the first third of the work."""
        late = [look for look in self.looks if look.count > self.looks[-1].count / 3]
        first, last = late[0], late[-1]
        return {
            "part": part,
            unit: last.count,
            "memory_at_a_third_mb": round(first.memory, 1),
            "memory_at_the_end_mb": round(last.memory, 1),
            "slope_mb_per_1000": round(1000 * _slope(late), 4),
            "descriptors": [first.descriptors, last.descriptors],
            **more,
            "flat": last.memory <= (1 + _MOST_GROWTH) * first.memory
            and last.descriptors <= first.descriptors + 2,
        }


def _slope(looks: Sequence[Look]) -> float:
    """The slope of memory over the count, by least squares."""
    mean_count = sum(look.count for look in looks) / len(looks)
    mean_memory = sum(look.memory for look in looks) / len(looks)
    spread = sum((look.count - mean_count) ** 2 for look in looks)
    joint = sum((look.count - mean_count) * (look.memory - mean_memory) for look in looks)
    return joint / spread if spread else 0.0


def train(folder: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Trains until the time is over; then Ctrl-C."""
    changes = f"eval_frequency={arguments.eval_frequency},schedule=constant"
    line = [word.replace("eval_frequency=2", changes) for word in tiny.flags(folder)]
    line.append("--train_steps=100000000")
    metrics = folder / "run" / "metrics.jsonl"
    began = time.monotonic()
    with (folder / "trainer.log").open("w") as log:
        process = _start("trainer", line, stdout=log, stderr=log)
        watch = Watch(process.pid, lambda: _updates(metrics))
        try:
            process.wait(arguments.seconds)
        except subprocess.TimeoutExpired:
            watch.end()
            process.send_signal(signal.SIGINT)
            process.wait(60)
    if process.returncode != 130:
        raise RuntimeError((folder / "trainer.log").read_text()[-2000:])
    records = [json.loads(text) for text in metrics.read_text().splitlines()]
    steps = [record["step"] for record in records if record["kind"] == "train"]
    evaluations = sum(record["kind"] == "eval" for record in records)
    more = {
        "seconds": round(time.monotonic() - began),
        "evaluations": evaluations,
        "in_order": steps == list(range(1, len(steps) + 1)),
    }
    return watch.report("ut-trainer", "updates", more)


def _updates(metrics: Path) -> int:
    """The last update that was logged."""
    try:
        with metrics.open("rb") as file:
            file.seek(max(metrics.stat().st_size - 4000, 0))
            steps = re.findall(rb'"step": (\d+)', file.read())
    except OSError:
        return 0
    return int(steps[-1]) if steps else 0


def decode(folder: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Sends lines through a pipe; each answer must be the one of its line."""
    texts, expected = _answers(folder)
    generator = random.Random(0)
    chosen = [generator.randrange(len(texts)) for _ in range(arguments.lines)]
    line = [*_run_of(folder), "--decode_hparams=beam_size=1,max_length=4,batch_size=256"]
    began = time.monotonic()
    process = _start("decoder", line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None and process.stdout is not None
    count = 0
    watch = Watch(process.pid, lambda: count)
    writer = threading.Thread(target=_write, args=(process.stdin, texts, chosen), daemon=True)
    writer.start()
    wrong = 0
    for answer in process.stdout:
        wrong += count >= len(chosen) or answer.rstrip("\n") != expected[chosen[count]]
        count += 1
    watch.end()
    if process.wait() != 0 or count != len(chosen):
        raise RuntimeError(f"ut-decoder answered {count} of {len(chosen)} lines")
    more = {
        "seconds": round(time.monotonic() - began),
        "distinct_answers": len(set(expected)),
        "in_order": wrong == 0,
    }
    return watch.report("ut-decoder", "lines", more)


def _answers(folder: Path) -> tuple[list[str], list[str]]:
    """Some texts of different lengths, and the answer to each."""
    generator = random.Random(1)
    texts = [
        " ".join(str(generator.randrange(10)) for _ in range(generator.randint(1, 24)))
        for _ in range(_DISTINCT)
    ]
    (folder / "texts").write_text("".join(f"{text}\n" for text in texts))
    options = "--decode_hparams=beam_size=1,max_length=4,batch_size=1"
    line = [*_run_of(folder), options, f"--decode_from_file={folder / 'texts'}"]
    process = _start("decoder", line, stdout=subprocess.PIPE, text=True)
    output, _ = process.communicate(timeout=300)
    return texts, output.splitlines()


def _write(file: Any, texts: list[str], chosen: list[int]) -> None:
    for number in chosen:
        file.write(f"{texts[number]}\n")
    file.close()


def serve(folder: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Asks ut-serve one request after the other; each answer must be the one of its text."""
    texts, _ = _answers(folder)
    export = f"--export_dir={folder / 'export'}"
    options = "--decode_hparams=beam_size=1,max_length=4"
    made = _start("exporter", [*_run_of(folder), export, options], stdout=subprocess.DEVNULL)
    if made.wait(300) != 0:
        raise RuntimeError("ut-exporter failed")
    began = time.monotonic()
    process = _start("serve", [export, "--port=0"], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    address = next(
        found for line in process.stderr if (found := re.search(r"127\.0\.0\.1:(\d+)", line))
    )
    threading.Thread(target=process.stderr.read, daemon=True).start()
    count = 0
    watch = Watch(process.pid, lambda: count)
    connection = HTTPConnection("127.0.0.1", int(address[1]))
    generator = random.Random(0)
    answers: dict[str, Any] = {}
    wrong = 0
    while count < arguments.requests:
        text = generator.choice(texts)
        body = json.dumps({"instances": [text]})
        connection.request("POST", "/v1/models/model:predict", body)
        answer = json.loads(connection.getresponse().read())["predictions"]
        wrong += answers.setdefault(text, answer) != answer
        count += 1
    watch.end()
    process.send_signal(signal.SIGTERM)
    process.wait(60)
    more = {
        "seconds": round(time.monotonic() - began),
        "distinct_answers": len({json.dumps(answer) for answer in answers.values()}),
        "in_order": wrong == 0,
    }
    return watch.report("ut-serve", "requests", more)


def _run_of(folder: Path) -> list[str]:
    """The flag of a run of random weights that reads and writes digits; made where it is not there.

    The weights of an untrained network are so small that all texts have the same answer.
    """
    output_dir = folder / "digits"
    if not output_dir.exists():
        import tensorflow as tf

        from tests.bin.tiny_runs import digits_run
        from ut_tf.storage.checkpoints import CheckpointStore

        model = digits_run(output_dir).make_model()
        for weight in model.trainable_weights:
            weight.assign(_LARGER * weight)
        state = {"best_step": 200, "averaged": False}
        CheckpointStore(output_dir).save(200, tf.train.Checkpoint(model=model), state)
    return [f"--output_dir={output_dir}"]


def _start(command: str, words: list[str], **streams: Any) -> subprocess.Popen[Any]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": "-1"}
    line = [sys.executable, "-m", f"ut_tf.bin.{command}", *words]
    return subprocess.Popen(line, env=environment, **streams)


def main() -> None:
    command = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    command.add_argument("--seconds", type=float, default=1200.0, help="of training")
    command.add_argument("--eval_frequency", type=int, default=200, help="updates")
    command.add_argument("--lines", type=int, default=200_000, help="through ut-decoder")
    command.add_argument("--requests", type=int, default=50_000, help="to ut-serve")
    command.add_argument("--parts", default=",".join(PARTS), help=",".join(PARTS))
    arguments = command.parse_args()
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    parts = {"trainer": train, "decoder": decode, "serve": serve}
    has_failed = False
    with tempfile.TemporaryDirectory() as folder:
        for name in arguments.parts.split(","):
            report = parts[name](Path(folder), arguments)
            print(json.dumps(report), flush=True)
            is_told_apart = report.get("distinct_answers", _LEAST_ANSWERS) >= _LEAST_ANSWERS
            has_failed |= not (report["flat"] and report["in_order"] and is_told_apart)
    sys.exit(has_failed)


if __name__ == "__main__":
    main()
