"""Measures preparation and training of a corpus of any size: seconds, megabytes/s, peak memory.

    python benchmarks/corpus.py --megabytes=1000                    # translate_files
    python benchmarks/corpus.py --megabytes=1000 --problem=lm_files
    python benchmarks/corpus.py --megabytes=1000 --copies=20        # trains on 20 GB

The corpus is a text of random words repeated with a number in each line, written as it is made. The
peak is that of the sum over a process and those it starts, sampled four times a second, pages of
files that are mapped included. With --copies training reads the prepared shards so many times, by
links. With --resume it runs once more, stopped in the middle and resumed, and the losses are
compared. The last line on standard output is JSON.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

_WORDS, _WORDS_OF_A_LINE, _BLOCK_LINES = 20_000, 12, 50_000
_SMALL = "hidden_size=32,filter_size=32,num_heads=2,num_steps=1,dropout=0.0"


def write_corpus(folder: Path, megabytes: int, sides: int) -> tuple[list[Path], int]:
    """Writes the files of a corpus, about so large together; returns them and their lines."""
    rng = np.random.default_rng(0)
    letters = rng.integers(97, 123, (_WORDS, 9), dtype=np.uint8)
    lengths = rng.integers(2, 10, _WORDS)
    words = [bytes(row[:length]) for row, length in zip(letters, lengths, strict=True)]
    numbers = np.minimum(rng.zipf(1.3, (_BLOCK_LINES, _WORDS_OF_A_LINE)) - 1, _WORDS - 1)
    lines = [b" ".join(words[number] for number in row) for row in numbers]
    blocks = [lines, [line.upper() for line in lines]][:sides]
    paths = [folder / f"text.{side}" for side in range(sides)]
    repetitions = max(1, megabytes * 10**6 // (sides * sum(len(line) + 7 for line in lines)))
    for path, block in zip(paths, blocks, strict=True):
        whole = b"".join(line + b"\n" for line in block)
        with path.open("wb") as file:
            for repetition in range(repetitions):
                file.write(whole.replace(b"\n", b" %05d\n" % repetition))
    return paths, repetitions * _BLOCK_LINES


def run_measured(command: Sequence[str]) -> dict[str, float]:
    """Runs a command of ut-tf: wall and processor seconds, peak megabytes.

    Raises:
      SystemExit: it failed.
    """
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
    began, before, peak = time.perf_counter(), os.times(), 0
    process = subprocess.Popen([sys.executable, "-m", *command], env=environment)
    while process.poll() is None:
        peak = max(peak, sum(map(_resident, _tree(process.pid))))
        time.sleep(0.25)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} failed")
    after = os.times()
    return {
        "seconds": round(time.perf_counter() - began, 1),
        "cpu_seconds": round(
            after.children_user
            + after.children_system
            - before.children_user
            - before.children_system,
            1,
        ),
        "peak_mb": round(peak / 1e6),
    }


def _tree(root: int) -> list[int]:
    """A process and all that descend from it."""
    parents = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            status = Path(f"/proc/{name}/stat").read_text()
        except OSError:
            continue  # It has ended.
        parents[int(name)] = int(status.rpartition(")")[2].split()[1])
    tree = [root]
    for process in tree:
        tree += [child for child, parent in parents.items() if parent == process]
    return tree


def _resident(process: int) -> int:
    """The bytes of a process in memory; 0 where it has ended."""
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    flags = parse(argv)
    folder = Path(tempfile.mkdtemp(prefix="corpus-", dir=flags.folder))
    try:
        result = benchmark(flags, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps({**result, "load": os.getloadavg()[0]}))
    return 0


def benchmark(flags: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """All figures of one corpus."""
    sides = 2 if flags.problem == "translate_files" else 1
    paths, lines = write_corpus(folder, flags.megabytes, sides)
    megabytes = sum(path.stat().st_size for path in paths) / 1e6
    files = [f"--source_files={paths[0]}"]
    files += [f"--target_files={path}" for path in paths[1:]]
    where = [f"--data_dir={folder}/data", f"--tmp_dir={folder}/tmp"]
    hparams = f"vocab_size={flags.vocab_size}"
    sets = {"translate_files": "ut_translate_small", "lm_files": "ut_lm"}
    hparams_set = f"--hparams_set={sets[flags.problem]}"
    prepared = run_measured(
        [
            "ut_tf.bin.datagen",
            f"--problem={flags.problem}",
            hparams_set,
            f"--hparams={hparams}",
            *files,
            *where,
        ]
    )

    def train(name: str, steps: int) -> dict[str, float]:
        command = [
            "ut_tf.bin.trainer",
            f"--problem={flags.problem}",
            hparams_set,
            f"--hparams={hparams},{_SMALL},train_steps={flags.updates},dtype_policy=float32",
            *files,
            *where,
            f"--output_dir={folder}/{name}",
            f"--local_eval_frequency={flags.updates // 2}",
            "--log_frequency=5",
            f"--train_steps={steps}",
        ]
        return run_measured(command)

    if flags.copies > 1:
        repeat_shards(folder / "data", flags.copies)
    result: dict[str, Any] = {
        "problem": flags.problem,
        "megabytes": round(megabytes),
        "lines": lines,
        "prepared": {**prepared, "mb_per_s": round(megabytes / prepared["seconds"], 2)},
    }
    if flags.updates:
        trained = train("whole", flags.updates)
        result["trained"] = {**trained, "of_megabytes": round(flags.copies * megabytes)}
    if flags.resume:
        train("stopped", flags.updates // 2)
        train("stopped", flags.updates)
        losses = [_losses(folder / name / "metrics.jsonl") for name in ("whole", "stopped")]
        result["equal_after_resuming"] = losses[0] == losses[1]
    return result


def repeat_shards(data_dir: Path, copies: int) -> None:
    """Makes the prepared training data so many times as large, by links."""
    (summary_file,) = data_dir.rglob("summary.json")
    shards = sorted(summary_file.parent.glob("train-*.npz"))
    for number in range(len(shards), copies * len(shards)):
        os.link(shards[number % len(shards)], summary_file.parent / f"train-{number:05}.npz")
    summary = json.loads(summary_file.read_text(encoding="utf-8"))
    counts, key = (
        (summary["splits"]["train"], "kept")
        if "splits" in summary
        else (summary["sharded"], "train")
    )
    counts[key] *= copies
    summary_file.write_text(json.dumps(summary), encoding="utf-8")


def _losses(metrics: Path) -> dict[int, float]:
    """The training loss at each logged step."""
    rows = map(json.loads, metrics.read_text(encoding="utf-8").splitlines())
    return {row["step"]: row["loss"] for row in rows if row["kind"] == "train"}


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """The flags' values."""
    parser = argparse.ArgumentParser(description="Measures corpora of any size.")
    parser.add_argument("--problem", default="translate_files", help="or lm_files")
    parser.add_argument("--megabytes", type=int, default=200, help="default: %(default)s")
    parser.add_argument("--vocab_size", type=int, default=8000, help="default: %(default)s")
    parser.add_argument("--updates", type=int, default=50, help="0: none (default: %(default)s)")
    parser.add_argument("--copies", type=int, default=1, help="default: %(default)s")
    parser.add_argument("--resume", action="store_true", help="also compares a resumed run")
    parser.add_argument("--folder", help="for the corpus (default: the system's)")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
