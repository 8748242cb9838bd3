"""Damages the files of a run and the disk below it: an answer or one line, and no wrong figure.

How it is used::

    python benchmarks/faults/disks.py                             # all faults
    python benchmarks/faults/disks.py --faults=flips --positions=300
    python benchmarks/faults/disks.py --seconds=5 --trials=2      # a sample

A run with the smallest network is trained first, in this process, which then calls the commands and
the library's readers: one bit changed in a file, each bit of the logs, files cut at every power of
two, a disk that is full after any page, a read-only disk, a limit of file sizes, folders that
vanish, a clock set back, two trainers in one directory. Each fault takes at most --seconds. A line
of JSON for each fault: how often all was as without it ("same"), it was told and passed over
("told"), refused in one line ("refused"), or fell short: another answer without a word ("changed"),
"traceback".
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]

import tiny  # noqa: E402
from outcomes import Counts, called  # noqa: E402
from small_disk import enter_namespace, small_disk  # noqa: E402

FAULTS = (
    *("flips", "log_bits", "cuts"),
    *("full", "limit", "output", "read_only"),
    *("vanish", "clock", "trainers"),
)


def measured(folder: Path, arguments: argparse.Namespace, mounts: bool) -> Iterator[Counts]:
    """Yields the counts of each fault that was asked for."""
    began = time.monotonic()
    _make(folder)
    print(f"the run took {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    chosen = arguments.faults.split(",")
    generator = random.Random(arguments.seed)
    yield from _damaged(folder, chosen, arguments, generator)
    if mounts:
        yield from _on_small_disk(folder, chosen, arguments, generator)
    else:
        print("no disk can be mounted here: full and read_only are left out", file=sys.stderr)
    yield from _others(folder, chosen, arguments)


def _make(folder: Path) -> None:
    import ut_tf

    tiny.train(folder)
    tiny.evaluate(folder / "run")
    ut_tf.save(ut_tf.Run.load(folder / "run"), folder / "model")


def _damaged(
    folder: Path, chosen: list[str], arguments: argparse.Namespace, generator: random.Random
) -> Iterator[Counts]:
    import damaged

    if not {"flips", "log_bits", "cuts"} & set(chosen):
        return
    readers = damaged.Readers(folder)
    if "flips" in chosen:
        flips = damaged.flips(folder, arguments.positions, generator)
        yield from damaged.count("bit flipped", folder, flips, readers, 4 * arguments.seconds)
    if "log_bits" in chosen:
        bits = damaged.log_bits(folder, generator)
        yield from damaged.count("any bit flipped", folder, bits, readers, 4 * arguments.seconds)
    if "cuts" in chosen:
        cuts = damaged.cuts(folder, generator)
        yield from damaged.count("file cut", folder, cuts, readers, 4 * arguments.seconds)


def _on_small_disk(
    folder: Path, chosen: list[str], arguments: argparse.Namespace, generator: random.Random
) -> Iterator[Counts]:
    import full_disk

    with small_disk(folder / "disk") as disk:
        for writer in full_disk.writers(folder):
            if arguments.writers and writer.name not in arguments.writers.split(","):
                continue
            if "full" in chosen:
                trials, seconds = arguments.trials, arguments.seconds
                yield full_disk.fill(writer, disk, trials, seconds, generator)
            if "limit" in chosen:
                yield full_disk.limited(writer, disk, generator, max(arguments.trials // 4, 1))
            if "read_only" in chosen:
                yield full_disk.read_only(writer, disk)


def _others(folder: Path, chosen: list[str], arguments: argparse.Namespace) -> Iterator[Counts]:
    import full_disk
    import unsteady

    calls: dict[str, Callable[[], Counts]] = {
        "output": lambda: full_disk.full_output(_printing(folder)),
        "vanish": lambda: unsteady.vanishing(folder),
        "clock": lambda: unsteady.clock(folder),
        "trainers": lambda: unsteady.two_trainers(folder, arguments.pairs),
    }
    for name, call in calls.items():
        if name in chosen:
            yield call()


def _printing(folder: Path) -> list[tuple[str, Callable[[list[str]], int], list[str]]]:
    """Commands that print, with arguments that they answer."""
    from ut_tf.bin import bleu, datagen, decoder, exporter, report, show, sweep, trainer
    from ut_tf.bin import eval as eval_command

    text = folder / "question.txt"
    text.write_text("1 Mary moved to the kitchen.\n2 Where is Mary?\n")
    run = f"--output_dir={folder / 'run'}"
    sweep_line = [f"--output_dir={folder / 'sweep'}", f"--problems={tiny.PROBLEM}", "--dry_run"]
    calls: list[tuple[str, Callable[[list[str]], int], list[str]]] = [
        ("ut-trainer --registry_help", trainer.main, ["--registry_help"]),
        ("ut-trainer --help", trainer.main, ["--help"]),
        ("ut-trainer", trainer.main, tiny.flags(folder)),
        ("ut-datagen", datagen.main, ["--registry_help=babi"]),
        ("ut-eval", eval_command.main, [run]),
        ("ut-decoder", decoder.main, [run, f"--decode_from_file={text}"]),
        ("ut-bleu", bleu.main, [f"--translation={text}", f"--reference={text}"]),
        ("ut-report", report.main, [str(folder / "run")]),
        ("ut-show", show.main, [run, "--examples=1"]),
        ("ut-sweep", sweep.main, [*sweep_line, f"--hparams_sets={tiny.HPARAMS_SET}"]),
        ("ut-exporter", exporter.main, [run, f"--export_dir={folder / 'export'}"]),
    ]
    for name, main, argv in calls:
        call = called(main, argv, 120.0)
        if call.status != 0 or not call.output:
            print(f"{name} prints nothing: {call.errors}", file=sys.stderr)
    return calls


def main() -> None:
    command = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    command.add_argument("--seconds", type=float, default=60.0, help="of each fault, about")
    command.add_argument("--seed", type=int, default=0)
    command.add_argument("--faults", default=",".join(FAULTS), help=",".join(FAULTS))
    command.add_argument("--positions", type=int, default=200, help="bits changed in each file")
    command.add_argument("--trials", type=int, default=12, help="amounts of room for each writer")
    command.add_argument("--pairs", type=int, default=2, help="of trainers that start together")
    command.add_argument("--writers", default="", help="names, all without it")
    arguments = command.parse_args()
    os.environ.update(CUDA_VISIBLE_DEVICES="-1", TF_CPP_MIN_LOG_LEVEL="3")
    sys.stdin = open(os.devnull)  # noqa: SIM115
    mounts = enter_namespace()
    short = 0
    with tempfile.TemporaryDirectory() as folder:
        for counts in measured(Path(folder), arguments, mounts):
            print(counts.report(), flush=True)
            short += counts.has_failed
    sys.exit(short > 0)


if __name__ == "__main__":
    main()
