"""Counts the official bAbI test questions that runs of results/ know from their training stories.

How it is used::

    python benchmarks/overlap.py --tmp_dir=downloads    # writes results/overlap.json anew

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
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from ut_tf.factories import make_problem  # noqa: E402
from ut_tf.problems.babi.held_out import questions_of  # noqa: E402
from ut_tf.problems.babi.problem import BabiQA  # noqa: E402
from ut_tf.problems.babi.stories import Story  # noqa: E402
from ut_tf.problems.babi.story_questions import StoryQuestions  # noqa: E402
from ut_tf.tables.overlaps import EXCHANGES, OVERLAPS_FILE, SIMULATED, Overlap  # noqa: E402
from ut_tf.tables.record import ResultRecord, read_records  # noqa: E402

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
    parser.add_argument("--results", type=Path, default=ROOT / "results")
    values = parser.parse_args()
    files = sorted(values.results.glob("*.jsonl"))
    lines = (json.dumps(item.to_json()) for item in overlaps(read_records(files), values.tmp_dir))
    path = values.results / OVERLAPS_FILE
    path.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
