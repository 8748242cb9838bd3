"""Kills commands with SIGKILL at random moments, starts them again until they end, and compares
what they leave with what undisturbed ones leave, bit by bit.

How it is used::

    python benchmarks/faults/kills.py
    python benchmarks/faults/kills.py --only=float32 --seconds=60

A training is killed at any moment of its start, after one of its first updates, and while it saves.
Compared are its losses and metrics, every byte of its checkpoints and the names of all its files;
of prepared data and means of checkpoints every file, of exports their answers. The seed decides the
moments; how far a process has come by then depends on the machine.
"""

import functools
import random
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from frame import Counts, Outcome, Plan, run, tell
from processes import Process, in_child, load

_KILLS_OF_A_RUN, _MOST_KILLS = 4, 24
_SIZES = (
    "hidden_size=16,filter_size=32,num_heads=2,num_steps=2,dropout=0.1,attention_dropout=0.1,"
    "relu_dropout=0.1,batch_size=64,max_length=16,learning_rate=0.1,warmup_steps=4,"
    "train_steps=14,eval_frequency=2,keep_checkpoint_max=3,early_stopping_patience=0"
)
_TEXTS = ("--problem=classify_files", "--problem_args=vocab_size=300,max_subwords=16")
_PAIRS = ("--problem=translate_files", "--problem_args=vocab_size=400")
_STORIES = ("--problem=babi_sim_task1", "--problem_args=train_questions=120,test_questions=20")
_DIGITS = (
    "--problem=algorithmic_copy_decimal40",
    "--problem_args=max_length=6,train_examples=120,validation_length=2,validation_examples=4",
)
_BOARDS = (
    "--problem=sudoku_4x4",
    "--problem_args=train_puzzles=300,validation_puzzles=9,test_puzzles=9",
)
# Flags of the problem, and what makes it this training.
TRAININGS = {
    "float32 with dropout": (*_STORIES, "--hparams_set=ut_babi", ""),
    "accumulation of gradients": (*_TEXTS, "--hparams_set=ut_classify", "accumulate_steps=3"),
    "averaging of weights": (*_TEXTS, "--hparams_set=ut_classify", "average_decay=0.9"),
    "curriculum": (
        *_DIGITS,
        "--hparams_set=ut_tiny",
        "curriculum=length,curriculum_start=2,min_length_bucket=2,curriculum_examples=8,"
        "curriculum_threshold=0.01",
    ),
    "mixed precision": (*_TEXTS, "--hparams_set=ut_classify", "dtype_policy=mixed_float16"),
    "halting with compaction": (
        *_TEXTS,
        "--hparams_set=ut_act_classify",
        "act_max_steps=4,halting_compute=compact",
    ),
    "deep supervision": (*_BOARDS, "--hparams_set=ut_trm_sudoku4", "H_cycles=1,L_cycles=1"),
    "drawn depth": (
        *_TEXTS,
        "--hparams_set=ut_classify",
        "train_depth=uniform,train_depth.max=4,backprop_steps=2",
    ),
}
# Names of files that hold times, processes or other folders: only that they are there counts.
_OWN = ("messages.txt", "config.json", "processes.jsonl", "metrics.jsonl")


class Task(NamedTuple):
    """A command that is killed.

    Fields:
      command: its module in ``ut_tf.bin``.
      argv: its command line, given the folder to write in.
      prepare: fills that folder before; (folder) -> None.
      differences: between what an undisturbed command left in its folder and another's.
    """

    command: str
    argv: Callable[[Path], list[str]]
    prepare: Callable[[Path], None]
    differences: Callable[[Path, Path], list[str]]

    def start(self, folder: Path) -> Process:
        return Process(self.command, self.argv(folder), folder / "messages.txt")


def campaign(folder: Path, plan: Plan) -> Iterator[Counts]:
    """Yields the counts of each command."""
    load()
    write_texts(folder)
    tasks = {**others(folder), **trainings(folder)}
    names = plan.chosen(tasks)
    deadline = time.monotonic() + plan.seconds
    for number, name in enumerate(names):
        seconds = (deadline - time.monotonic()) / (len(names) - number)
        yield kill_repeatedly(name, tasks[name], folder, seconds, plan.generator(name))


def kill_repeatedly(
    name: str, task: Task, folder: Path, seconds: float, generator: random.Random
) -> Counts:
    """Kills a command again and again, lets it end after every fourth, and compares."""
    counts, kills, began = Counts(name), 0, time.monotonic()
    place = folder / name.replace(" ", "_")
    whole = place / "whole"
    length = run_undisturbed(task, whole)
    number = 0
    while number == 0 or (time.monotonic() - began < seconds and kills < _MOST_KILLS):
        other = place / f"killed{number}"
        number += 1
        other.mkdir()
        task.prepare(other)
        for _ in range(_KILLS_OF_A_RUN):
            process = task.start(other)
            wait(task, process, other, length, generator)
            if process.kill() != -9:
                break
            kills += 1
        process = task.start(other)
        if process.ends() == 0:
            differences = task.differences(whole, other)
        else:
            differences = [f"status {process.kill()}: {process.text[-600:]}"]
        counts.add(Outcome("short" if differences else "same", "\n".join(differences)), other.name)
        tell(f"{name}: {kills} kills, {differences or 'equal to the last bit'}")
    counts.note = f"{kills} kills"
    return counts


def run_undisturbed(task: Task, folder: Path) -> float:
    """Lets a command end; its seconds."""
    folder.mkdir(parents=True, exist_ok=True)
    task.prepare(folder)
    process = task.start(folder)
    if process.ends() != 0:
        raise SystemExit(f"the undisturbed command failed:\n{process.text}")
    return time.monotonic() - process.began


def wait(task: Task, process: Process, folder: Path, length: float, chance: random.Random) -> None:
    """Waits for a random moment: any; of a training also soon after one of its lines in the log, or
    after one of its checkpoints has been begun.
    """
    metrics, checkpoints = folder / "run" / "metrics.jsonl", folder / "run" / "checkpoints"
    kind = chance.choice(("any", "line", "checkpoint")) if task.command == "trainer" else "any"
    if kind == "any":
        process.ends(chance.uniform(0.0, length))
    elif kind == "line":
        size = (metrics.stat().st_size if metrics.exists() else 0) + chance.randrange(600)
        process.waits_for(lambda: metrics.exists() and metrics.stat().st_size > size)
        process.ends(chance.uniform(0.0, 0.1))
    else:
        former, skipped = set(checkpoints.glob("*")), chance.randrange(3)
        process.waits_for(lambda: len(set(checkpoints.glob("*")) - former) > skipped)
        process.ends(chance.uniform(0.0, 0.05))


def trainings(folder: Path) -> dict[str, Task]:
    """The trainings, by name."""

    def argv(name: str, place: Path) -> list[str]:
        *flags, hparams = TRAININGS[name]
        sizes = ",".join(filter(None, (_SIZES, hparams)))
        written = [f"--hparams={sizes}", f"--output_dir={place / 'run'}", "--random_seed=3"]
        return [*flags, *written, "--log_frequency=1", *data_flags(folder, flags, folder)]

    def differences(whole: Path, other: Path) -> list[str]:
        metrics = metrics_of(whole / "run") == metrics_of(other / "run")
        return [*([] if metrics else ["metrics.jsonl differs"]), *different_files(whole, other)]

    return {
        name: Task("trainer", functools.partial(argv, name), lambda _: None, differences)
        for name in TRAININGS
    }


def others(folder: Path) -> dict[str, Task]:
    """Data preparation, means of checkpoints and exports, by name."""
    source = folder / "source"

    def prepare_source(_: Path) -> None:
        if not source.exists():
            run_undisturbed(trainings(folder)["averaging of weights"], source)

    def datagen(flags: tuple[str, ...], place: Path) -> list[str]:
        return [*flags, *data_flags(folder, flags, place)]

    def mean(place: Path) -> list[str]:
        return [f"--output_dir={source / 'run'}", "--n=2", f"--avg_dir={place / 'mean'}"]

    def export(place: Path) -> list[str]:
        return [f"--output_dir={source / 'run'}", f"--export_dir={place / 'export'}"]

    prepared = {"pairs": _PAIRS, "texts with classes": _TEXTS, "stories": _STORIES}
    return {
        **{
            f"ut-datagen, {name}": Task(
                "datagen", functools.partial(datagen, flags), lambda _: None, different_files
            )
            for name, flags in prepared.items()
        },
        "ut-avg-checkpoints": Task("avg_checkpoints", mean, prepare_source, different_files),
        "ut-exporter": Task("exporter", export, prepare_source, different_exports),
    }


def data_flags(folder: Path, flags: Sequence[str], place: Path) -> list[str]:
    """The folders of the data, and the files that a problem of the user's own is made of."""
    own = [
        f"--source_files={folder / file}"
        for problem, file in (("classify_files", "texts.tsv"), ("translate_files", "pairs.tsv"))
        if problem in flags[0]
    ]
    return [*own, f"--data_dir={place / 'data'}", f"--tmp_dir={place / 'tmp'}"]


def write_texts(folder: Path) -> None:
    """Texts with labels, and pairs of sentences."""
    generator = random.Random(1)
    people, verbs = ("Anna", "Ben", "Carla", "David"), ("sees", "finds", "likes", "misses")
    things = ("the lamp", "a book", "an apple", "the garden", "her old house")
    sentences = [[generator.choice(words) for words in (people, verbs, things)] for _ in range(600)]
    with (folder / "texts.tsv").open("w") as file:
        for words in sentences[:240]:
            label = "good" if words[1] in ("finds", "likes") else "bad"
            file.write(f"{label}\t{' '.join(words)}\n")
    with (folder / "pairs.tsv").open("w") as file:
        for number, sentence in enumerate(sentences):
            words = [*sentence, str(number % 97)]
            file.write(f"{' '.join(words)}\t{' '.join(reversed(words))}\n")


def different_files(whole: Path, other: Path) -> list[str]:
    """The files that are missing, left over or of other bytes; but for those of ``_OWN``."""
    expected, found = files_in(whole), files_in(other)
    return [
        *(f"{name} is missing" for name in sorted(expected.keys() - found.keys())),
        *(f"{name} is left over" for name in sorted(found.keys() - expected.keys())),
        *(
            f"{name} differs"
            for name in sorted(expected.keys() & found.keys())
            if Path(name).name not in _OWN
            and expected[name].read_bytes() != found[name].read_bytes()
        ),
    ]


def files_in(folder: Path) -> dict[str, Path]:
    """All files by name; TensorBoard's are named after times and processes."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    names = {str(path.relative_to(folder)): path for path in files}
    return {name: path for name, path in names.items() if "tensorboard/" not in name}


def metrics_of(output_dir: Path) -> list[dict[str, Any]]:
    """The lines of metrics.jsonl without the speed and the checksum, which changes with it.

    Raises:
      ValueError: a line is damaged.
    """
    from ut_tf.storage.json_lines import read_object

    path = output_dir / "metrics.jsonl"
    metrics = []
    for number, text in enumerate(path.read_bytes().splitlines(), start=1):
        if (line := read_object(text)) is None:
            raise ValueError(f"{path}:{number} is damaged")
        metrics.append({name: line[name] for name in line if name != "tokens_per_second"})
    return metrics


def different_exports(whole: Path, other: Path) -> list[str]:
    """Every version that a server would load must answer as the undisturbed one."""
    versions = sorted((other / "export").glob("[0-9]*"))
    expected = in_child(answers, whole / "export" / "1")
    names = files_in(whole / "export" / "1").keys()
    hidden = {path.name for path in (other / "export").iterdir() if path not in versions}
    return [
        *([] if versions else ["there is no version"]),
        *(f"export/{name} is left over" for name in sorted(hidden - {".lock"})),
        *(
            f"version {each.name} lacks files"
            for each in versions
            if files_in(each).keys() != names
        ),
        *(
            f"version {each.name} answers otherwise"
            for each in versions
            if in_child(answers, each) != expected
        ),
    ]


def answers(folder: Path) -> dict[str, Any]:
    """The answers of a SavedModel to two texts."""
    import tensorflow as tf

    served = tf.saved_model.load(str(folder)).signatures["serving_default"]
    texts = tf.constant(["Anna finds a book", "Ben misses the lamp"])
    values = served(**dict.fromkeys(served.structured_input_signature[1], texts))
    return {name: value.numpy().tolist() for name, value in values.items()}


if __name__ == "__main__":
    run(__doc__, campaign, seconds=900.0)
