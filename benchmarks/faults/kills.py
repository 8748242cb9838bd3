"""Kills the commands with SIGKILL at random moments, starts them again, and compares what they
leave with what undisturbed ones leave, bit by bit.

How it is used::

    python benchmarks/faults/kills.py                 # all forms and commands
    python benchmarks/faults/kills.py --smoke         # one form, a few kills

A training is killed and resumed until it ends: in its start, in a step, while it saves, while it
evaluates. Compared are its losses and metrics, its checkpoints (weights, optimizer, averages,
random states, ``state.json``) and the names of all its files. Data preparation, averaging and
export are killed and started again likewise. The seed decides the moments; how far a process has
come by then depends on the machine. The line of JSON on standard output counts kills and what was
equal.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import json
import os
import random
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent))

from equality import different_checkpoints, different_names, different_runs, names_in
from processes import Process, folder_of, in_child, load, tell

TRAINING = ("start", "step", "save", "evaluation")
KILLS = {
    **dict.fromkeys(TRAINING, 18),
    "data preparation": 10,
    "averaging": 9,
    "export": 9,
}
SMOKE = {**dict.fromkeys(TRAINING, 1), "averaging": 1}
# How often one command is killed before it may end.
_KILLS_OF_A_TRIAL = 3
# How much of the time data preparation, averaging and export get, where a form gets 1.
_SHARE_OF_TASKS = 2
_SIZES = (
    "hidden_size=16,filter_size=32,num_heads=2,num_steps=2,dropout=0.1,attention_dropout=0.1,"
    "relu_dropout=0.1,batch_size=64,max_length=16,learning_rate=0.1,warmup_steps=4,"
    "train_steps=14,eval_frequency=2,keep_checkpoint_max=3,early_stopping_patience=0"
)
_TEXTS = ("--problem=classify_files", "--problem_args=vocab_size=300,max_subwords=16")
_STORIES = ("--problem=babi_sim_task1", "--problem_args=train_questions=120,test_questions=20")
_DIGITS = (
    "--problem=algorithmic_copy_decimal40",
    "--problem_args=max_length=6,train_examples=120,validation_length=2,validation_examples=4",
)


class Form(NamedTuple):
    """A training that is killed.

    Fields:
      flags: of ut-trainer, problem and set.
      hparams: what makes it this form.
    """

    flags: tuple[str, ...]
    hparams: str


FORMS = {
    "float32 with dropout": Form((*_STORIES, "--hparams_set=ut_babi"), ""),
    "accumulation": Form((*_TEXTS, "--hparams_set=ut_classify"), "accumulate_steps=3"),
    "averaging of weights": Form((*_TEXTS, "--hparams_set=ut_classify"), "average_decay=0.9"),
    "curriculum": Form(
        (*_DIGITS, "--hparams_set=ut_tiny"),
        "curriculum=length,curriculum_start=2,min_length_bucket=2,curriculum_examples=8,"
        "curriculum_threshold=0.01",
    ),
    "mixed precision": Form((*_TEXTS, "--hparams_set=ut_classify"), "dtype_policy=mixed_float16"),
    "halting with compaction": Form(
        (*_TEXTS, "--hparams_set=ut_act_classify"),
        "act_max_steps=4,halting_compute=compact",
    ),
}
# The form whose run is averaged and exported.
_AVERAGED = "averaging of weights"


@dataclass
class Counts:
    """What was killed, and what came of it.

    Fields:
      kills: by phase.
      forms: by form: kills, runs that ended, and those of them that are equal.
      failures: sentences about what is not as it should be.
    """

    kills: collections.Counter[str] = field(default_factory=collections.Counter)
    forms: dict[str, collections.Counter[str]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def killed(self, form: str, phase: str) -> None:
        self.kills[phase] += 1
        self.forms.setdefault(form, collections.Counter())["kills"] += 1
        tell(f"{form}: killed in {phase} ({sum(self.kills.values())})")

    def ended(self, form: str, differences: list[str]) -> None:
        of_form = self.forms.setdefault(form, collections.Counter())
        of_form["runs"] += 1
        of_form["equal"] += not differences
        self.failures += [f"{form}: {difference}" for difference in differences]
        tell(f"{form}: ended, {'; '.join(differences) or 'equal to the last bit'}")

    def report(self) -> dict[str, Any]:
        kills = sum(self.kills.values())
        return {
            "kills": kills,
            "phases": dict(self.kills),
            "forms": {name: dict(counts) for name, counts in self.forms.items()},
            "failures": self.failures,
            "bound_of_failure_rate": None if self.failures or not kills else round(3 / kills, 4),
        }


@dataclass(frozen=True)
class Campaign:
    """The folder, the chance and the end of a campaign.

    Fields:
      folder: of everything that is written.
      generator: of the random moments.
      deadline: after which nothing more is killed.
      counts: so far.
    """

    folder: Path
    generator: random.Random
    deadline: float
    counts: Counts

    @property
    def is_over(self) -> bool:
        return time.monotonic() > self.deadline

    def part(self, parts: int) -> Campaign:
        """The campaign in one of so many equal parts of the time that is left."""
        now = time.monotonic()
        return dataclasses.replace(self, deadline=now + (self.deadline - now) / parts)


def train(folder: Path, form: Form, output_dir: Path) -> Process:
    hparams = ",".join(filter(None, (_SIZES, form.hparams)))
    argv = [
        *form.flags,
        f"--hparams={hparams}",
        f"--output_dir={output_dir}",
        *data_flags(folder, form.flags),
        "--random_seed=3",
        "--log_frequency=1",
    ]
    return Process("trainer", argv, output_dir.with_suffix(".txt"))


def data_flags(folder: Path, flags: tuple[str, ...]) -> list[str]:
    """The folders of the data, and the files that a problem of the user's own is made of."""
    own = ["--source_files=" + str(folder / "texts.tsv")] if "classify_files" in flags[0] else []
    if "translate_files" in flags[0]:
        own = ["--source_files=" + str(folder / "pairs.tsv")]
    return [*own, f"--data_dir={folder / 'data'}", f"--tmp_dir={folder / 'tmp'}"]


def write_texts(folder: Path) -> None:
    """Texts with labels, and pairs of sentences."""
    generator = random.Random(1)
    people, verbs = ("Anna", "Ben", "Carla", "David"), ("sees", "finds", "likes", "misses")
    things = ("the lamp", "a book", "an apple", "the garden", "her old house")

    def sentence() -> list[str]:
        return [generator.choice(words) for words in (people, verbs, things)]

    with (folder / "texts.tsv").open("w") as file:
        for _ in range(240):
            words = sentence()
            label = "good" if words[1] in ("finds", "likes") else "bad"
            file.write(f"{label}\t{' '.join(words)}\n")
    with (folder / "pairs.tsv").open("w") as file:
        for number in range(600):
            words = [*sentence(), str(number % 97)]
            file.write(f"{' '.join(words)}\t{' '.join(reversed(words))}\n")


def kill_training(name: str, campaign: Campaign, quota: dict[str, int]) -> None:
    """Kills runs of a form until each phase was hit as often as `quota` says."""
    form, folder = FORMS[name], campaign.folder
    place = folder / name.replace(" ", "_")
    place.mkdir()
    whole = train(folder, form, place / "whole")
    if whole.ends() != 0:
        raise SystemExit(f"{name}: the undisturbed run failed:\n{whole.text()}")
    durations = whole.durations()
    tell(f"{name}: { ({phase: round(sum(values), 2) for phase, values in durations.items()}) }")
    number = 0
    while any(count > 0 for count in quota.values()) and not campaign.is_over:
        output_dir = place / f"broken{number}"
        number += 1
        status = None
        while status is None:
            process = train(folder, form, output_dir)
            wanted = [phase for phase, count in quota.items() if count > 0]
            if not wanted or campaign.is_over:
                status = process.ends()
                break
            phase = campaign.generator.choice(wanted)
            if not aim(process, phase, durations, campaign.generator):
                status = process.ends()
                break
            status = process.kill()
            if status < 0:
                hit = {"between": "step"}.get(process.phase, process.phase)
                quota[hit] = quota.get(hit, 0) - 1
                campaign.counts.killed(name, hit)
                status = None
        if status != 0:
            campaign.counts.ended(name, [f"status {status}: {process.text()[-600:]}"])
            return
        campaign.counts.ended(name, different_runs(place / "whole", output_dir))


def aim(
    process: Process, phase: str, durations: Mapping[str, list[float]], generator: random.Random
) -> bool:
    """Waits for a random moment in a phase of the process; False where it ended before."""
    if phase == "start":
        moment = process.began + generator.uniform(0.0, durations["start"][0])
        process.reaches("step", deadline=moment)
        return process.is_open
    lengths = durations[phase]
    count = generator.randint(1, min(3, len(lengths)))
    if not process.reaches(phase, count):
        return False
    time.sleep(generator.uniform(0.0, lengths[count - 1]))
    return True


class Task(NamedTuple):
    """A command that writes one thing, and is killed at it.

    Fields:
      phase: as which its kills count.
      moments: phases of the process at whose beginning a random wait begins.
      start: starts it in a folder of its own, to write there.
      prepare: fills the folder before.
      differences: between what an undisturbed command left in its folder and another's.
    """

    phase: str
    moments: tuple[str, ...]
    start: Callable[[Path], Process]
    prepare: Callable[[Path], None]
    differences: Callable[[Path, Path], list[str]]


def kill_task(task: Task, name: str, campaign: Campaign, kills: int) -> None:
    """Kills a command `kills` times, lets it end after every third, and compares."""
    place = campaign.folder / f"{task.phase} {name}".replace(" ", "_")
    whole = place / "whole"
    task.prepare(whole)
    process = task.start(whole)
    if process.ends() != 0:
        raise SystemExit(f"{name}: the undisturbed command failed:\n{process.text()}")
    durations = process.durations()
    tell(f"{task.phase}, {name}: {durations}")
    trials = 0
    while kills > 0 and not campaign.is_over:
        folder = place / f"broken{trials}"
        trials += 1
        task.prepare(folder)
        for _ in range(min(kills, _KILLS_OF_A_TRIAL)):
            process = task.start(folder)
            moment = campaign.generator.choice(task.moments)
            if process.reaches(moment):
                time.sleep(campaign.generator.uniform(0.0, 1.05 * durations[moment][0]))
            if process.kill() < 0:
                campaign.counts.killed(name, task.phase)
                kills -= 1
            elif process.status != 0:
                break
        process = task.start(folder)
        status = process.ends()
        told = [f"status {status}: {process.text()[-600:]}"] if status else []
        campaign.counts.ended(name, told or task.differences(whole, folder))


def preparation(campaign: Campaign, flags: tuple[str, ...]) -> Task:
    """ut-datagen; every file is compared."""

    def start(folder: Path) -> Process:
        argv = [
            *flags,
            *data_flags(campaign.folder, flags)[:-2],
            f"--data_dir={folder / 'data'}",
            f"--tmp_dir={folder / 'tmp'}",
        ]
        return Process("datagen", argv, folder / "messages.txt")

    def differences(whole: Path, other: Path) -> list[str]:
        expected, found = names_in(whole), names_in(other)
        return [
            *different_names(whole, other),
            *(
                f"{name} differs"
                for name in sorted((expected & found) - {"messages.txt"})
                if (whole / name).read_bytes() != (other / name).read_bytes()
            ),
        ]

    return Task("data preparation", ("data preparation",), start, make_folder, differences)


def averaging(campaign: Campaign, replaces: bool) -> Task:
    """ut-avg-checkpoints; `replaces` a former mean whose translations and exports are kept."""
    run = campaign.folder / _AVERAGED.replace(" ", "_") / "whole"

    def start(folder: Path, n: int = 2) -> Process:
        argv = [f"--output_dir={run}", f"--n={n}", f"--avg_dir={folder / 'mean'}"]
        return Process("avg_checkpoints", argv, folder / "messages.txt")

    def prepare(folder: Path) -> None:
        make_folder(folder)
        if replaces:
            if start(folder, 3).ends() != 0:
                told = (folder / "messages.txt").read_text()
                raise SystemExit(f"the former mean failed:\n{told}")
            for name in ("translations/one.txt", "export/1/saved_model.pb"):
                (folder / "mean" / name).parent.mkdir(parents=True)
                (folder / "mean" / name).write_text("kept\n")

    def differences(whole: Path, other: Path) -> list[str]:
        return [
            *different_names(whole, other),
            *different_checkpoints(whole / "mean", other / "mean"),
        ]

    return Task("averaging", ("averaging", "save"), start, prepare, differences)


def export(campaign: Campaign) -> Task:
    """ut-exporter; every version that a server would load must answer as the undisturbed one."""
    run = campaign.folder / _AVERAGED.replace(" ", "_") / "whole"

    def start(folder: Path) -> Process:
        argv = [f"--output_dir={run}", f"--export_dir={folder / 'export'}"]
        return Process("exporter", argv, folder / "messages.txt")

    def differences(whole: Path, other: Path) -> list[str]:
        versions = sorted((other / "export").glob("[0-9]*"))
        expected = in_child(answers, whole / "export" / "1")
        names = names_in(whole / "export" / "1")
        hidden = [path.name for path in (other / "export").iterdir() if path not in versions]
        return [
            *([] if versions else ["there is no version"]),
            *(f"export/{name} is left over" for name in hidden if name != ".lock"),
            *(f"version {v.name} lacks files" for v in versions if names_in(v) != names),
            *(
                f"version {version.name} answers otherwise"
                for version in versions
                if in_child(answers, version) != expected
            ),
        ]

    return Task("export", ("export", "writing an export"), start, make_folder, differences)


def answers(folder: Path) -> dict[str, Any]:
    """What a SavedModel answers to two texts."""
    import tensorflow as tf

    served = tf.saved_model.load(str(folder)).signatures["serving_default"]
    texts = tf.constant(["Anna finds a book", "Ben misses the lamp"])
    fields = served.structured_input_signature[1]
    values = served(**dict.fromkeys(fields, texts))
    return {name: value.numpy().tolist() for name, value in values.items()}


def make_folder(folder: Path) -> None:
    folder.mkdir(parents=True)


def part(count: int, number: int, parts: int) -> int:
    """How many of `count` fall to one of so many equal parts."""
    return count * (number + 1) // parts - count * number // parts


def campaign_of(campaign: Campaign, kills: Mapping[str, int], forms: tuple[str, ...]) -> None:
    """All forms and tasks."""
    for number, name in enumerate(forms):
        share = {phase: part(kills.get(phase, 0), number, len(forms)) for phase in TRAINING}
        if any(share.values()) or name == _AVERAGED:
            kill_training(name, campaign.part(len(forms) - number + _SHARE_OF_TASKS), share)
    prepared = {
        "translate_files": ("--problem=translate_files", "--problem_args=vocab_size=400"),
        "classify_files": _TEXTS,
        "babi_sim": (
            "--problem=babi_sim_task1",
            "--problem_args=train_questions=300,test_questions=60",
        ),
    }
    for number, (name, flags) in enumerate(prepared.items()):
        count = part(kills.get("data preparation", 0), number, len(prepared))
        if count:
            kill_task(preparation(campaign, flags), name, campaign, count)
    means = kills.get("averaging", 0)
    for replaces, count in ((False, means // 2), (True, means - means // 2)):
        if count:
            name = "over a former mean" if replaces else "a new mean"
            kill_task(averaging(campaign, replaces), name, campaign, count)
    if kills.get("export"):
        kill_task(export(campaign), "export", campaign, kills["export"])


def main() -> None:
    command = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    command.add_argument("--seconds", type=float, default=2400.0, help="after which none is killed")
    command.add_argument("--seed", type=int, default=0)
    command.add_argument("--kills", default="", help="JSON: how many, by phase")
    command.add_argument("--smoke", action="store_true", help="a few kills of one form")
    command.add_argument("--forms", default="", help=", ".join(FORMS))
    command.add_argument("--folder", type=Path, help="keeps all runs there")
    arguments = command.parse_args()
    began = time.monotonic()
    chosen = tuple(arguments.forms.split(",")) if arguments.forms else tuple(FORMS)
    with folder_of(arguments.folder) as folder:
        load()
        write_texts(folder)
        campaign = Campaign(
            folder, random.Random(arguments.seed), began + arguments.seconds, Counts()
        )
        campaign_of(
            campaign,
            json.loads(arguments.kills) if arguments.kills else SMOKE if arguments.smoke else KILLS,
            (_AVERAGED,) if arguments.smoke else chosen,
        )
    report = {"test": "kills", "seed": arguments.seed, **campaign.counts.report()}
    print(json.dumps({**report, "seconds": round(time.monotonic() - began)}), flush=True)
    sys.stdout.flush()
    os._exit(bool(campaign.counts.failures))


if __name__ == "__main__":
    main()
