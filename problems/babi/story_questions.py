"""Questions about stories: the problem that bAbI and the simulated stories share.

An example is a question with the statements before it in the same story (its facts; earlier
questions are none). Its answer, commas and all ("apple,football"), is one class. Prepared data is a
folder with the stories as text records and the vocabularies of words and answers.
"""

import shutil
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from ut_tf.data.example_table import ExampleTable, example_order
from ut_tf.data.prepared import PreparedFolder
from ut_tf.data.problem import EvaluationSet, Problem
from ut_tf.data.text.vocabulary import (
    UNKNOWN,
    WordVocabulary,
    distinct_words,
    read_symbols,
    split_words,
    write_symbols,
)
from ut_tf.errors import UserError, counted
from ut_tf.notices import report
from ut_tf.problem_spec import ProblemSpec
from ut_tf.problems.babi.codec import ANSWERS_FILE, WORDS_FILE, StoryCodec
from ut_tf.problems.babi.examples import Form, QuestionSplit
from ut_tf.problems.babi.exchange import WordExchange
from ut_tf.problems.babi.held_out import separate_splits
from ut_tf.problems.babi.question_keys import common_keys, question_keys, spare_held_out
from ut_tf.problems.babi.records import VERSION, BabiStories, read_records, write_records
from ut_tf.problems.babi.stories import Story
from ut_tf.storage.files import sha256_of

_FAILED_ERROR = 5.0
_VALIDATED = 2000
# Words, answers and words of a fact of the twenty tasks together.
_USUAL_SIZES, _USUAL_WORDS = (180, 90), 8


class StoryQuestions(Problem):
    """Questions about stories; subclasses say where the stories come from.

    Args:
      name: the problem's name, for messages.
      config: name of the folder that holds the prepared stories; problems with the same stories
        share it.
      form: "facts" ([facts + 1, words], the question last) or "tokens" (one sequence: the facts'
        words, the question's, the end).
      max_facts: an example has the last so many facts before its question.
      exchange_words: in every epoch the words of each training question are exchanged for others of
        their kind (``exchange``).
      disjoint_splits: whether validation, and a test split that the problem makes itself, are
        without the questions that are trained on.
    """

    selection_metric = ("error", "min")
    earlier_arguments: ClassVar[Mapping[str, Any]] = {"disjoint_splits": False}
    own_splits: ClassVar[tuple[str, ...]] = ("validation", "test")
    """The splits besides training that the problem makes itself."""

    def __init__(
        self,
        name: str,
        config: str,
        form: Form = "facts",
        max_facts: int = 70,
        exchange_words: bool = False,
        disjoint_splits: bool = True,
    ) -> None:
        if form not in ("facts", "tokens"):
            raise UserError(f"`form`={form!r}: expected facts or tokens.")
        if max_facts < 1:
            raise UserError(f"`max_facts`={max_facts}: expected at least 1.")
        self.name = name
        self.form: Form = form
        self.max_facts = max_facts
        self.exchange_words = exchange_words
        self.disjoint_splits = disjoint_splits
        self._config = f"{config}_apart{max_facts}" if disjoint_splits else config
        self._loaded: dict[tuple[Path, str], QuestionSplit] = {}
        self._exchangeable: dict[Path, tuple[npt.NDArray[np.int64], frozenset[bytes]]] = {}

    @abstractmethod
    def stories(self, tmp_dir: Path) -> dict[str, list[Story]]:
        """Reads, downloads or makes the stories of each split."""

    def source(self, tmp_dir: Path) -> Path | None:
        """The file that the stories are read from, whether or not it is there; default: None, for
        stories that come from no file.
        """
        return None

    def prepare(self, data_dir: Path, tmp_dir: Path) -> None:
        """Writes the stories, the vocabularies and, last, the summary.

        Raises:
          UserError: the stories cannot be had, or what was prepared before is damaged.
        """
        folder = self._folder(data_dir)
        if not folder.make_once(lambda: self._prepare(data_dir, tmp_dir)):
            self._warn_of_another_source(folder, tmp_dir)

    def spec(self, data_dir: Path) -> ProblemSpec:
        """Facts or tokens to one class, with the sizes of the vocabularies in `data_dir`."""
        folder = self._prepared(data_dir)
        max_words = folder.summary()["max_words"] if self.form == "facts" else 0
        return ProblemSpec(
            self.form,
            "class",
            input_vocab_size=len(read_symbols(folder.path / WORDS_FILE)) + 2,
            target_vocab_size=len(read_symbols(folder.path / ANSWERS_FILE)),
            max_words=max_words,
        )

    def usual_spec(self) -> ProblemSpec:
        """Returns about the sizes of all twenty tasks."""
        max_words = _USUAL_WORDS if self.form == "facts" else 0
        return ProblemSpec(self.form, "class", *_USUAL_SIZES, max_words=max_words)

    def examples(
        self, split: str, data_dir: Path, seed: int = 0, epoch: int = 0, length: int | None = None
    ) -> ExampleTable:
        """{"inputs": [facts + 1, max_words] or [tokens], "targets": [], "task": [],
        "supporting_facts": []}, all int32; `length` has no effect.

        "supporting_facts" is their number, 0 where the file does not give them. The split is read
        into memory the first time.
        """
        loaded = self._load(split, data_dir)
        order = example_order(split, len(loaded.ends), seed, epoch)
        exchange = None
        if split == "train" and self.exchange_words:
            words, answers = self._symbols(data_dir)
            exchange = WordExchange.drawn(loaded.tasks, words, answers, seed, epoch)
            if self.disjoint_splits:
                alike, held_out = self._alike(data_dir, words, answers)
                exchange = spare_held_out(exchange, loaded, alike, held_out, self.max_facts)
        return loaded.table(order, self.form, self.max_facts, exchange)

    def evaluation_sets(self, lengths: tuple[int, ...] = ()) -> list[EvaluationSet]:
        """The test split, with metrics for each task and ponder times by supporting facts;
        `lengths` has no effect.
        """
        return [
            EvaluationSet("", "test", "classify", group_by="task", ponder_by="supporting_facts")
        ]

    def validation_sets(self) -> list[EvaluationSet]:
        """The validation split (evenly spaced examples of a large one), with metrics by task."""
        return [
            EvaluationSet("", "validation", "classify", group_by="task", max_examples=_VALIDATED)
        ]

    def summarize(self, metrics: dict[str, float]) -> dict[str, float]:
        """mean_error (percent, over tasks), failed_tasks (error above 5 %), from "error/<task>"."""
        errors = [value for name, value in metrics.items() if name.startswith("error/")]
        if not errors:
            return {}
        return {
            "mean_error": sum(errors) / len(errors),
            "failed_tasks": float(sum(error > _FAILED_ERROR for error in errors)),
        }

    def text_pairs(self, split: str, data_dir: Path) -> tuple[list[str], list[str]]:
        """The questions of a split, in order, and their answers.

        A question is "story<tab>question", the columns of ``StoryCodec``; in the story "\\n" stands
        between the sentences, all before it.
        """
        self.check_split(split)
        folder = self._prepared(data_dir)
        sources, answers = [], []
        with folder.reading():
            records = read_records(folder.path, split)
            names = ("sentences", "questions", "answers", "positions")
            stories = zip(*(records[name].to_list() for name in names), strict=True)
            for sentences, questions, of_story, positions in stories:
                lines = [sentence.decode("utf-8") for sentence in sentences]
                sources += [
                    "\\n".join(lines[:end]) + "\t" + text.decode("utf-8")
                    for text, end in zip(questions, positions, strict=True)
                ]
                answers += [answer.decode("utf-8") for answer in of_story]
        return sources, answers

    def vocab_files(self, data_dir: Path) -> list[Path]:
        """words.txt (ids from 2) and answers.txt (classes from 0), one symbol a line."""
        return [self._folder(data_dir).path / name for name in (WORDS_FILE, ANSWERS_FILE)]

    def text_codec(self, vocab_dir: Path) -> StoryCodec:
        """The codec of stories and questions."""
        return StoryCodec(vocab_dir, self.form, self.max_facts)

    def exchanges_of_training(self, split: str, data_dir: Path) -> list[bool]:
        """For each question of a split whether `exchange_words` can make it of one for training."""
        symbols = self._symbols(data_dir)
        trained = {*self._common_keys("train", data_dir, *symbols)}
        return [key in trained for key in self._common_keys(split, data_dir, *symbols)]

    def _folder(self, data_dir: Path) -> PreparedFolder:
        return PreparedFolder(
            data_dir / BabiStories.name / self._config,
            needed=(WORDS_FILE, ANSWERS_FILE, VERSION),
            fields={"max_words": int},
        )

    def _prepared(self, data_dir: Path) -> PreparedFolder:
        return self._folder(data_dir).require(self, data_dir)

    def _prepare(self, data_dir: Path, tmp_dir: Path) -> None:
        folder, stories = self._folder(data_dir), self.stories(tmp_dir)
        report(f"preparing {self.name} in {data_dir}")
        if self.disjoint_splits:
            stories = self._apart(stories)
        # Records without a summary may be those of another archive than the vocabularies that are
        # written now; a process that was killed has left its own half written.
        for former in (folder.path / VERSION, *folder.path.glob(f"incomplete.*_{VERSION}")):
            shutil.rmtree(former, ignore_errors=True)
        write_records(stories, self._config, data_dir)
        every = [story for split in self.splits for story in stories[split]]
        texts = (text for story in every for text in (*story.sentences, *story.questions))
        # An ordered set: bAbI's 750,000 sentences are a few thousand distinct ones.
        sentences = tf.constant(list(dict.fromkeys(texts)))
        answers = sorted({answer for story in every for answer in story.answers})
        write_symbols(folder.path / WORDS_FILE, [UNKNOWN, *distinct_words(sentences)])
        write_symbols(folder.path / ANSWERS_FILE, answers)
        folder.finish(
            {
                "max_words": int(tf.reduce_max(split_words(sentences).row_lengths())),
                "sha256": folder.digests((WORDS_FILE, ANSWERS_FILE)),
                "source_sha256": _sha256_if_there(self.source(tmp_dir)),
            }
        )

    def _apart(self, stories: dict[str, list[Story]]) -> dict[str, list[Story]]:
        made, left_out = separate_splits(stories, self.max_facts, self.own_splits)
        for split, count in left_out.items():
            if stories[split] and not made[split]:
                raise UserError(
                    f"{self.name}: all questions for {split} are also trained on: ask for other or"
                    " more stories, or set `disjoint_splits`=false."
                )
            if count:
                report(
                    f"{self.name}: left out of {split}: {counted(count, 'question')} that"
                    " training has too"
                )
        return made

    def _warn_of_another_source(self, folder: PreparedFolder, tmp_dir: Path) -> None:
        before, source = folder.summary().get("source_sha256", ""), self.source(tmp_dir)
        now = _sha256_if_there(source)
        if before and now and before != now:
            folder.warn_of_other_sources(self, str(source))

    def _alike(
        self, data_dir: Path, words: list[str], answers: list[str]
    ) -> tuple[npt.NDArray[np.int64], frozenset[bytes]]:
        """The numbers of the training questions that an exchange may make questions for validation,
        and the keys of these.
        """
        if data_dir not in self._exchangeable:
            asked, held_out = (
                self._common_keys(split, data_dir, words, answers)
                for split in ("train", "validation")
            )
            judged = {*held_out}
            numbers = np.flatnonzero([key in judged for key in asked])
            validation = self._load("validation", data_dir)
            every = np.arange(len(validation.ends))
            keys = frozenset(question_keys(validation, every, self.max_facts))
            self._exchangeable[data_dir] = numbers, keys
        return self._exchangeable[data_dir]

    def _symbols(self, data_dir: Path) -> tuple[list[str], list[str]]:
        """The words and the answers."""
        path = self._prepared(data_dir).path
        return read_symbols(path / WORDS_FILE), read_symbols(path / ANSWERS_FILE)

    def _common_keys(
        self, split: str, data_dir: Path, words: list[str], answers: list[str]
    ) -> list[tuple[int, bytes]]:
        """For each question of a split its task, and what it shares with all its exchanges."""
        loaded = self._load(split, data_dir)
        keys: list[tuple[int, bytes]] = [(0, b"")] * len(loaded.tasks)
        for task in np.unique(loaded.tasks).tolist():
            numbers = np.flatnonzero(loaded.tasks == task)
            common = common_keys(loaded, numbers, self.max_facts, words, answers)
            for number, key in zip(numbers.tolist(), common, strict=True):
                keys[number] = task, key
        return keys

    def _load(self, split: str, data_dir: Path) -> QuestionSplit:
        key = (data_dir, split)
        if key not in self._loaded:
            self.check_split(split)
            folder = self._prepared(data_dir)
            with folder.reading():
                answers = read_symbols(folder.path / ANSWERS_FILE)
                self._loaded[key] = QuestionSplit.of_records(
                    read_records(folder.path, split),
                    WordVocabulary(folder.path / WORDS_FILE),
                    {answer: number for number, answer in enumerate(answers)},
                    folder.summary()["max_words"],
                )
        return self._loaded[key]


def _sha256_if_there(path: Path | None) -> str:
    try:
        return sha256_of(path) if path else ""
    except OSError:
        # Prepared data needs no archive, and so no directory of archives that can be read.
        return ""
