"""bAbI: twenty tasks of questions about short stories (Weston et al., arXiv 1502.05698; Section 3.1
of arXiv 1807.03819).

Names: babi_qa (all tasks jointly, 10,000 training questions each), babi_qa_1k,
babi_qa_task<1..20>_<1k|10k>; and the same as one sequence of tokens under tensor2tensor's names,
babi_qa_concat_<all_tasks|task1..task20>_<1k|10k>.

The archive is bAbI tasks 1-20 v1.2 with its folders en and en-10k. Its folders en-valid and
en-valid-10k divide the same training questions; here the last stories of each task's training file,
with 10 % of its questions, are the validation split instead, so that only two files per task are
needed. An archive with missing stories is used as it is. As in the paper's code an example has the
last 70 facts before its question, or the last 130 where task 3 is trained alone.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

from ut_tf.data.download import Archive, find_or_download
from ut_tf.data.text.utf8 import decode_utf8
from ut_tf.data.unpacking import is_plain_file, name_damage, open_tar
from ut_tf.errors import UserError
from ut_tf.problems.babi.held_out import draw_separate, questions_of
from ut_tf.problems.babi.simulator.story import check_bounds, numbers_in
from ut_tf.problems.babi.simulator.tasks import simulate_lines
from ut_tf.problems.babi.stories import (
    ALL_TASKS,
    Story,
    default_facts,
    parse_stories,
    split_validation,
    tasks_label,
)
from ut_tf.problems.babi.story_questions import StoryQuestions

_SIMULATED_QUESTIONS = 10_000
_FOLDERS = {"1k": "en", "10k": "en-10k"}

ARCHIVE = Archive(
    file="tasks_1-20_v1-2.tar.gz",
    urls=("http://www.thespermwhale.com/jaseweston/babi/tasks_1-20_v1-2.tar.gz",),
    sha256="0364ebde659f14d11bc21744516c5ec49d3d06cb692733f66680771244998898",
    advice="the problem babi_sim, whose stories are simulated, needs no file",
)


class BabiQA(StoryQuestions):
    """bAbI questions.

    Args:
      tasks: the task or tasks whose questions are asked; vocabularies and answers are theirs alone.
      size: "1k" or "10k" training questions per task (a tenth of them is the validation split).
      form: "facts" (a row for each fact, the question last) or "tokens" (one sequence).
      max_facts: facts before a question; 0: 130 for task 3 alone, otherwise 70.
      simulated_tasks: the task or tasks of `tasks` whose training split has simulated questions,
        too, drawn with seed 0.
      simulated_questions: questions added to each of the simulated tasks; 0: 10,000.
      exchange_words: in every epoch the people, places, things and verbs of each training question
        are exchanged for others of their kind.
      exclude_official: whether simulated questions are other ones than those of the archive for
        validation and test.
      disjoint_splits: whether questions for validation that are trained on, too, are left out.
      name: the problem's name, for messages.

    Raises:
      UserError: an argument is none of these.
    """

    earlier_arguments: ClassVar[Mapping[str, Any]] = {
        **StoryQuestions.earlier_arguments,
        "exclude_official": False,
    }
    own_splits: ClassVar[tuple[str, ...]] = ("validation",)

    def __init__(
        self,
        tasks: tuple[int, ...] | int = ALL_TASKS,
        size: Literal["1k", "10k"] = "10k",
        form: Literal["facts", "tokens"] = "facts",
        max_facts: int = 0,
        simulated_tasks: tuple[int, ...] | int = (),
        simulated_questions: int = 0,
        exchange_words: bool = False,
        exclude_official: bool = True,
        disjoint_splits: bool = True,
        name: str = "babi_qa",
    ) -> None:
        if size not in _FOLDERS:
            raise UserError(f"`size`={size!r}: expected 1k or 10k.")
        self.tasks = (tasks,) if isinstance(tasks, int) else tuple(sorted({*tasks}))
        self.size = size
        if not self.tasks or not {*self.tasks} <= {*ALL_TASKS}:
            raise UserError(f"`tasks`={tasks}: expected numbers from 1 to 20.")
        self.simulated_tasks = _simulated(simulated_tasks, simulated_questions, self.tasks)
        self._simulated_questions = simulated_questions or _SIMULATED_QUESTIONS
        label = tasks_label(self.tasks)
        if self.simulated_tasks:
            added = "_".join(map(str, self.simulated_tasks))
            label += f"_simulated{added}_n{self._simulated_questions}"
        facts = max_facts or default_facts(self.tasks)
        self.exclude_official = exclude_official and bool(self.simulated_tasks)
        if self.exclude_official:
            label += f"_others{facts}"
        super().__init__(name, f"{label}_{size}", form, facts, exchange_words, disjoint_splits)

    def stories(self, tmp_dir: Path) -> dict[str, list[Story]]:
        """The archive's stories; see the module's text for the validation split."""
        archive = find_or_download(ARCHIVE, tmp_dir, self.name)
        files = _read_files(archive, _FOLDERS[self.size])
        splits: dict[str, list[Story]] = {"train": [], "validation": [], "test": []}
        for task in self.tasks:
            train, validation = split_validation(
                _task_stories(archive, files, self.size, task, "train")
            )
            test = _task_stories(archive, files, self.size, task, "test")
            if task in self.simulated_tasks:
                train += self._simulated_stories(task, [*validation, *test])
            splits["train"] += train
            splits["validation"] += validation
            splits["test"] += test
        return splits

    def _simulated_stories(self, task: int, official: list[Story]) -> list[Story]:
        """The simulated stories of a task, without official questions where these are excluded."""

        def drawn(questions: int) -> list[Story]:
            lines = simulate_lines(task, questions)
            return list(parse_stories(lines, task, f"simulated stories of task {task}"))

        if not self.exclude_official:
            return drawn(self._simulated_questions)
        judged = {*questions_of(official, self.max_facts)}
        return draw_separate(drawn, self._simulated_questions, judged, self.max_facts)

    def data_note(self, data_dir: Path) -> str:
        """The differences from the published archive: another one was read, simulated training
        stories were added or words exchanged; otherwise nothing.
        """
        summary = self._prepared(data_dir).summary()
        notes = [] if summary.get("source_sha256") == ARCHIVE.sha256 else ["other archive"]
        if self.simulated_tasks:
            several = ", ".join(map(str, self.simulated_tasks))
            noun = "tasks" if len(self.simulated_tasks) > 1 else "task"
            notes.append(f"simulated training stories added to {noun} {several}")
        if self.exchange_words:
            notes.append("words of training stories exchanged")
        return "; ".join(notes)

    def source(self, tmp_dir: Path) -> Path:
        """The path of the archive, whether or not it is there."""
        return tmp_dir / ARCHIVE.file


def _simulated(value: object, questions: int, tasks: tuple[int, ...]) -> tuple[int, ...]:
    """The tasks with simulated questions, checked, as is the number of these."""
    simulated = {*numbers_in(value)}
    if value != () and not (simulated and simulated <= {*tasks}):
        raise UserError(f"`simulated_tasks`={value}: expected some of the problem's tasks.")
    if questions < 0:
        raise UserError(
            f"`simulated_questions`={questions}: expected at least 1, or 0 for"
            f" {_SIMULATED_QUESTIONS:,}."
        )
    if questions and not simulated:
        raise UserError(
            f"`simulated_questions`={questions} without `simulated_tasks`: name the tasks that get"
            " simulated questions, or leave it out."
        )
    check_bounds(simulated_questions=questions)
    return tuple(sorted(simulated))


def _read_files(archive: Path, folder: str) -> dict[tuple[int, str], tuple[str, str]]:
    """Returns (file name, text) of each (task, "train" or "test") in a folder of the archive."""
    pattern = re.compile(rf"(?:.*/)?{folder}/qa(\d+)_(?:.*_)?(train|test)\.txt")
    files = {}
    with name_damage(archive, "as an archive"), open_tar(archive) as tar:
        for member in tar:
            match = pattern.fullmatch(member.name)
            if match and is_plain_file(member):
                text = _text(tar, member, f"{archive}:{member.name}")
                files[int(match[1]), match[2]] = (member.name, text)
    return files


def _text(tar: Any, member: Any, name: str) -> str:
    with tar.extractfile(member) as file:
        content: bytes = file.read()
    return decode_utf8(content, name, "put the whole published archive in its place")


def _task_stories(
    archive: Path, files: dict[tuple[int, str], tuple[str, str]], size: str, task: int, part: str
) -> list[Story]:
    if (task, part) not in files:
        raise UserError(
            f"{archive} has no file {_FOLDERS[size]}/qa{task}_*_{part}.txt: expected the archive of"
            " bAbI tasks 1-20 v1.2; delete it, or put that archive in its place."
        )
    name, text = files[task, part]
    stories = list(parse_stories(text.splitlines(), task, f"{archive}:{name}"))
    if not any(story.questions for story in stories):
        raise UserError(
            f"{archive}:{name} has no question: expected stories in bAbI's format; put the whole"
            " archive in its place."
        )
    return stories
