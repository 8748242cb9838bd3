"""Counts the official bAbI test questions that runs of results/ know from their training stories.

How it is used::

    python benchmarks/overlap.py --tmp_dir=downloads    # writes results/overlap.json anew
    # The error on the other questions, of runs that benchmarks/reproduce.py has trained again with
    # the same error.
    python benchmarks/overlap.py --tmp_dir=downloads --others

Of a run with `exchange_words` a test question is known if an exchange of words makes it of a
training question. Of one with simulated stories it is known if it stands, facts and question alike,
among these; questions for validation are counted as well. ``make results`` writes the counts beside
the figures.
"""

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import tensorflow as tf

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from reproduce import StoredRun, stored_runs  # noqa: E402

from ut_tf.factories import make_problem  # noqa: E402
from ut_tf.problems.babi.held_out import questions_of  # noqa: E402
from ut_tf.problems.babi.problem import BabiQA  # noqa: E402
from ut_tf.problems.babi.stories import Story  # noqa: E402
from ut_tf.problems.babi.story_questions import StoryQuestions  # noqa: E402
from ut_tf.run import Run  # noqa: E402
from ut_tf.run_weights import load_model  # noqa: E402
from ut_tf.tables.overlaps import EXCHANGES, OVERLAPS_FILE, SIMULATED, Overlap  # noqa: E402
from ut_tf.tables.record import ResultRecord, keep_records, read_records  # noqa: E402

Known = list[tuple[int, bool]]
"""The task of each question, and whether it is known."""


def overlaps(records: Iterable[ResultRecord], tmp_dir: Path) -> list[Overlap]:
    """The overlap of each training data with its test data, where the former has exchanged words or
    simulated stories and the latter is official.
    """
    made: dict[tuple[str, ...], Overlap] = {}
    for record in records:
        key = Overlap.key_of(record)
        if key not in made and (found := known_questions(record, tmp_dir)):
            what, known = found
            made[key] = Overlap.of(record, what, {part: _counts(known[part]) for part in known})
    return list(made.values())


def known_questions(record: ResultRecord, tmp_dir: Path) -> tuple[str, dict[str, Known]] | None:
    """The kind of known questions of a record's data, and by split the questions; None: its
    training data have neither exchanged words nor simulated stories, or its test is not official.
    """
    if not record.problem.startswith("babi_"):
        return None
    made = make_problem(record.problem, record.problem_args, data_version=record.data_version)
    judged = make_problem(record.test_problem, {}) if record.test_problem else made
    if not isinstance(made, StoryQuestions) or not isinstance(judged, BabiQA):
        return None
    if isinstance(made, BabiQA) and not (made.simulated_tasks or made.exchange_words):
        return None
    official, trained = judged.stories(tmp_dir), made.stories(tmp_dir)["train"]
    if made.exchange_words:
        tasks = [story.task for story in official["test"] for _ in story.questions]
        with tempfile.TemporaryDirectory() as folder:
            made.prepare(Path(folder), tmp_dir)
            known = made.exchanges_of_training("test", Path(folder))
        return EXCHANGES, {"test": list(zip(tasks, known, strict=True))}
    if isinstance(made, BabiQA):
        published = BabiQA(tasks=made.tasks, size=made.size).stories(tmp_dir)["train"]
        trained = _beyond(trained, published)
    splits = ("test", "validation") if made is judged else ("test",)
    standing = {part: _standing(official[part], trained, made.max_facts) for part in splits}
    return SIMULATED, standing


def with_others(run: StoredRun, data_dir: str, tmp_dir: Path) -> list[ResultRecord]:
    """The records of a run's error, with the error on the questions that are not known.

    Args:
      run: that benchmarks/reproduce.py has trained again.
      data_dir: folder of prepared data.
      tmp_dir: folder of the archive.
    """
    errors = [record for record in run.records if record.metric == "error"]
    found = known_questions(errors[0], tmp_dir) if errors else None
    if found is None:
        return []
    known = np.array([one for _, one in found[1]["test"]])
    wrong = _wrong(Run.load(run.folder, data_dir=data_dir or None, tmp_dir=str(tmp_dir)))
    if known.all() or abs(100 * wrong.mean() - errors[0].value) > 1e-6:
        return []
    return [replace(record, others=100 * float(wrong[~known].mean())) for record in errors]


def _wrong(run: Run) -> npt.NDArray[np.bool_]:
    """Whether the best checkpoint of a run answers each test question wrongly."""
    problem = run.make_problem()
    run = run.prepare(problem)
    model, table = load_model(run), problem.examples("test", run.data_dir)
    wrong = []
    for begin in range(0, len(table), 100):
        features = table.batch(tf.range(begin, min(begin + 100, len(table))))
        targets = features.pop("targets")
        wrong.append(model(features).numpy().argmax(-1) != targets.numpy())
    return np.concatenate(wrong)


def _counts(known: Known) -> dict[int, tuple[int, int]]:
    """By task how many questions are known, and how many there are."""
    every = Counter(task for task, _ in known)
    right = Counter(task for task, is_known in known if is_known)
    return {task: (right[task], every[task]) for task in every}


def _beyond(stories: Iterable[Story], published: Iterable[Story]) -> list[Story]:
    """The stories of each task behind the published ones, which come first."""
    left = Counter(story.task for story in published)
    beyond = []
    for story in stories:
        left[story.task] -= 1
        if left[story.task] < 0:
            beyond.append(story)
    return beyond


def _standing(judged: Iterable[Story], trained: Iterable[Story], facts: int) -> Known:
    """Whether each question stands among the training stories of its task."""
    seen: dict[int, set[tuple[str, ...]]] = {}
    for story in trained:
        seen.setdefault(story.task, set()).update(questions_of([story], facts))
    return [
        (story.task, asked in seen.get(story.task, ()))
        for story in judged
        for asked in questions_of([story], facts)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tmp_dir", type=Path, required=True, help="holds bAbI's archive")
    parser.add_argument("--data_dir", default="", help="folder of prepared data")
    parser.add_argument("--results", type=Path, default=ROOT / "results")
    parser.add_argument("--others", action="store_true", help="of the runs that were trained again")
    values = parser.parse_args()
    files = sorted(values.results.glob("*.jsonl"))
    if values.others:
        for file in files:
            for run in stored_runs([file]):
                if (run.folder / "config.json").exists():
                    measured = with_others(run, values.data_dir, values.tmp_dir)
                    keep_records(file, measured)
                    print(run.name, *(f"{record.value} {record.others}" for record in measured))
        return
    lines = (json.dumps(item.to_json()) for item in overlaps(read_records(files), values.tmp_dir))
    path = values.results / OVERLAPS_FILE
    path.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
