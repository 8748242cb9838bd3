"""Questions about stories in bAbI's format: reading it, keeping it on disk, and turning it into
examples.

A file holds stories. Each line begins with its number in the story, from 1; a line with a tab is a
question, its answer and the numbers of the lines that support it, which may be absent; any other
line is a statement::

    1 Mary moved to the bathroom.
    2 John went to the hallway.
    3 Where is Mary? <tab>bathroom<tab>1

An example is a question with the statements before it in the same story (its facts; earlier
questions are none). Its answer, commas and all ("apple,football"), is one class.

How it works: stories are kept by tensorflow-datasets as text, one record each. When they are read,
every distinct sentence becomes word ids once, by TensorFlow operations; an example is then a range
of sentence numbers, so that all examples of all twenty tasks stay in memory.
"""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import sys
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import tensorflow as tf
import tensorflow_datasets as tfds

from ut_tf.data.prepared import undamaged
from ut_tf.data.problem import EvaluationSet, Problem
from ut_tf.data.table import ExampleTable
from ut_tf.data.text.vocabulary import (
    UNKNOWN,
    WordVocabulary,
    distinct_words,
    read_symbols,
    split_words,
    write_symbols,
)
from ut_tf.errors import UserError
from ut_tf.problem_spec import ProblemSpec
from ut_tf.problems.babi.codec import ANSWERS_FILE, WORDS_FILE, StoryCodec
from ut_tf.problems.babi.lines import malformed, numbered_lines
from ut_tf.storage.files import exclusive, sha256_of, write_text
from ut_tf.symbols import END_ID

SPLITS = ("train", "validation", "test")
_VALIDATION_SHARE = 0.1
_FAILED_ERROR = 5.0
_VERSION = "1.1.0"
_VALIDATED = 2000
Indices = npt.NDArray[np.int32]


@dataclass
class Story:
    """One story.

    Args:
      task: number of the task.
      sentences: the statements.
      questions, answers: one for each question.
      positions: of each question, the number of statements before it.
      supporting: of each question, the numbers of the file's lines that support the answer,
        questions counted, as the file orders them.
    """

    task: int
    sentences: list[str] = field(default_factory=list)
    questions: list[str] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    supporting: list[list[int]] = field(default_factory=list)


def parse_stories(lines: Iterable[str], task: int, file: str) -> Iterator[Story]:
    """Yields the stories of a file in bAbI's format.

    Args:
      lines: the file's lines.
      task: number of the task that the stories belong to.
      file: the file's name, for messages.

    Raises:
      UserError: names the file and the line that is not of the format.
    """
    story: Story | None = None
    for count, number, text in numbered_lines(lines, file):
        if number == 1 and story is not None:
            yield story
        if number == 1 or story is None:
            story = Story(task)
        if "\t" not in text:
            story.sentences.append(text.strip())
            continue
        question, answer, supporting, *_ = (part.strip() for part in [*text.split("\t"), ""])
        if not question or not answer:
            raise malformed(file, count, text, "a question, a tab and its answer")
        if not all(line.isdecimal() and 0 < int(line) < number for line in supporting.split()):
            raise malformed(
                file,
                count,
                text,
                "numbers of lines before it, with blanks between, after the second tab",
            )
        story.questions.append(question)
        story.answers.append(answer.lower())
        story.positions.append(len(story.sentences))
        story.supporting.append([int(line) for line in supporting.split()])
    if story is not None:
        yield story


def split_validation(stories: list[Story]) -> tuple[list[Story], list[Story]]:
    """Returns the stories for training and those for validation: the last whole stories that hold
    at least 10 % of the questions.

    At least one story is left for training.
    """
    wanted = _VALIDATION_SHARE * sum(len(story.questions) for story in stories)
    first, found = len(stories), 0
    while first > 1 and found < wanted:
        first -= 1
        found += len(stories[first].questions)
    return stories[:first], stories[first:]


class BabiStories(tfds.core.GeneratorBasedBuilder):  # type: ignore[misc]
    """Writes stories as text records.

    Args:
      stories: for each split its stories, in the order in which they are to be read.
      config: name of the folder that holds these stories.
      data_dir: the data directory.
    """

    VERSION = tfds.core.Version(_VERSION)

    def __init__(self, stories: Mapping[str, list[Story]], config: str, data_dir: str) -> None:
        self._stories = stories
        super().__init__(
            data_dir=data_dir, config=tfds.core.BuilderConfig(name=config, version=_VERSION)
        )

    def _info(self) -> Any:
        features = {
            "task": np.int32,
            "sentences": tfds.features.Sequence(tfds.features.Text()),
            "questions": tfds.features.Sequence(tfds.features.Text()),
            "answers": tfds.features.Sequence(tfds.features.Text()),
            "positions": tfds.features.Sequence(np.int32),
            "supporting": tfds.features.Sequence(tfds.features.Text()),
        }
        # The order is the source's: training shuffles examples in memory, by its seed.
        return tfds.core.DatasetInfo(
            builder=self, features=tfds.features.FeaturesDict(features), disable_shuffling=True
        )

    def _split_generators(self, dl_manager: Any) -> dict[str, Any]:
        del dl_manager
        # A split without stories cannot be written; when it is read its absence says that it is
        # empty.
        return {
            split: self._generate_examples(stories)
            for split, stories in self._stories.items()
            if stories
        }

    def _generate_examples(self, stories: list[Story]) -> Iterator[tuple[int, dict[str, Any]]]:
        for key, story in enumerate(stories):
            yield (
                key,
                {
                    **vars(story),
                    "supporting": [" ".join(map(str, lines)) for lines in story.supporting],
                },
            )


@dataclass(frozen=True)
class _Loaded:
    """A split in memory. Sentence numbers point into `words`; the statements of all stories stand
    one after the other.

    Args:
      words: int32 [distinct sentences + 1, max_words]: word ids, padded; the last row is empty.
      statements: [statements + 1]: sentence number of each statement; the last is the empty
        sentence.
      stories: [questions]: first statement of the question's story.
      ends: [questions]: statement after the last one before the question.
      questions: [questions]: sentence number of the question.
      answers: [questions]: class of the answer.
      tasks: [questions]: number of the task.
      supporting: [questions]: number of supporting facts.
    """

    words: Indices
    statements: Indices
    stories: Indices
    ends: Indices
    questions: Indices
    answers: Indices
    tasks: Indices
    supporting: Indices


def _write_quietly(builder: Any) -> None:
    """Writes a builder's records without its sizes ("Unknown") and its bar for every split, which
    last for a second.

    Both are caught where they are printed: the switch of tensorflow-datasets for bars belongs to
      the user.
    """
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        builder.download_and_prepare()


class StoryQuestions(Problem):
    """Questions about stories; subclasses say where the stories come from.

    Args:
      name: the problem's name, for messages.
      config: name of the folder that holds the prepared stories; problems with the same stories
        share it.
      form: "facts" ([facts + 1, words], the question last) or "tokens" (one sequence: the facts'
        words, the question's, the end).
      max_facts: an example has the last so many facts before its question.
    """

    selection_metric = ("error", "min")

    def __init__(
        self,
        name: str,
        config: str,
        form: Literal["facts", "tokens"] = "facts",
        max_facts: int = 70,
    ) -> None:
        if form not in ("facts", "tokens"):
            raise UserError(f"form={form!r}: expected facts or tokens.")
        if max_facts < 1:
            raise UserError(f"max_facts={max_facts}: expected at least 1.")
        self.name = name
        self.form = form
        self.max_facts = max_facts
        self._config = config
        self._loaded: dict[tuple[Path, str], _Loaded] = {}

    @abstractmethod
    def stories(self, tmp_dir: Path) -> dict[str, list[Story]]:
        """Returns the stories of each split; reads, downloads or makes them."""

    def source(self, tmp_dir: Path) -> Path | None:
        """Returns the file that the stories are read from, if it is there; default: None, for those
        that come from no file.
        """
        del tmp_dir
        return None

    def prepare(self, data_dir: Path, tmp_dir: Path) -> None:
        """Writes the stories, the vocabularies and, last of all, the summary that says that
        everything is there.

        Raises:
          UserError: the stories cannot be had, or what was prepared before is damaged.
        """
        if self._is_prepared(data_dir):
            self._warn_of_another_source(data_dir, tmp_dir)
            return
        # Several workers may start at once with the same empty directory: the first prepares, the
        # others find it done.
        with exclusive(data_dir / f".{self._config}.lock"):
            if not self._is_prepared(data_dir):
                self._prepare(data_dir, tmp_dir)

    def _prepare(self, data_dir: Path, tmp_dir: Path) -> None:
        stories = self.stories(tmp_dir)
        print(f"preparing {self.name} in {data_dir}", file=sys.stderr, flush=True)
        # Records without a summary may be those of another archive than the vocabularies that are
        # written now.
        shutil.rmtree(self._folder(data_dir) / _VERSION, ignore_errors=True)
        _write_quietly(BabiStories(stories, self._config, str(data_dir)))
        told = [story for split in SPLITS for story in stories[split]]
        # An ordered set: bAbI's 750,000 sentences are a few thousand distinct ones.
        sentences = tf.constant(
            list(
                dict.fromkeys(
                    text for story in told for text in (*story.sentences, *story.questions)
                )
            )
        )
        write_symbols(self._words_file(data_dir), [UNKNOWN, *distinct_words(sentences)])
        write_symbols(
            self._answers_file(data_dir),
            sorted({answer for story in told for answer in story.answers}),
        )
        longest = int(tf.reduce_max(split_words(sentences).row_lengths()))
        summary = {
            "max_words": longest,
            "sha256": {path.name: sha256_of(path) for path in self.vocab_files(data_dir)},
            "source_sha256": _sha256_if_there(self.source(tmp_dir)),
        }
        write_text(self._summary_file(data_dir), json.dumps(summary, indent=2) + "\n")

    def _warn_of_another_source(self, data_dir: Path, tmp_dir: Path) -> None:
        before, source = self._summary(data_dir).get("source_sha256", ""), self.source(tmp_dir)
        now = _sha256_if_there(source)
        if before and now and before != now:
            print(
                f"warning: {self.name} uses the data in {self._folder(data_dir)}, prepared earlier"
                f" from another archive than {source}: delete that folder to prepare it from this"
                " one.",
                file=sys.stderr,
                flush=True,
            )

    def spec(self, data_dir: Path) -> ProblemSpec:
        """Returns facts or tokens to one class, with the sizes of the vocabularies in
        `data_dir`.
        """
        longest = self._summary(data_dir)["max_words"]
        words, answers = (
            len(read_symbols(self._words_file(data_dir))) + 2,
            len(read_symbols(self._answers_file(data_dir))),
        )
        max_words = longest if self.form == "facts" else 0
        return ProblemSpec(
            self.form,
            "class",
            input_vocab_size=words,
            target_vocab_size=answers,
            max_words=max_words,
        )

    def examples(
        self, split: str, data_dir: Path, seed: int = 0, epoch: int = 0, length: int | None = None
    ) -> ExampleTable:
        """{"inputs": [facts + 1, max_words] or [tokens], "targets": [], "task": [],
        "supporting_facts": []}, all int32; `length` has no effect.

        "supporting_facts" is their number, 0 where the file does not give them. The split is read
        into memory the first time.
        """
        del length
        loaded = self._load(split, data_dir)
        order = np.arange(len(loaded.ends))
        if split == "train":
            order = np.random.default_rng([seed % 2**63, epoch]).permutation(len(order))
        return self._table(loaded, order)

    def evaluation_sets(self, lengths: tuple[int, ...] = ()) -> list[EvaluationSet]:
        """Returns the test split, each task reported for itself, and ponder times by supporting
        facts; `lengths` means nothing here.
        """
        del lengths
        return [
            EvaluationSet(
                name="",
                split="test",
                method="classify",
                group_by="task",
                ponder_by="supporting_facts",
            )
        ]

    def validation_sets(self) -> list[EvaluationSet]:
        """Returns the validation split (of a large one, evenly spaced examples), each task reported
        for itself.
        """
        return [
            EvaluationSet(
                name="",
                split="validation",
                method="classify",
                group_by="task",
                max_examples=_VALIDATED,
            )
        ]

    def summarize(self, metrics: dict[str, float]) -> dict[str, float]:
        """Returns mean_error (percent, over tasks) and failed_tasks (those with an error above 5
        %), from "error/<task>".
        """
        errors = [value for name, value in metrics.items() if name.startswith("error/")]
        if not errors:
            return {}
        return {
            "mean_error": sum(errors) / len(errors),
            "failed_tasks": float(sum(error > _FAILED_ERROR for error in errors)),
        }

    def text_pairs(self, split: str, data_dir: Path) -> tuple[list[str], list[str]]:
        """Returns the questions of a split, in order, and their answers.

        A question is "story<tab>question", the columns of ``StoryCodec``; in the story "\\n" stands
        between the sentences, all before it.
        """
        self._check_prepared(split, data_dir)
        sources, answers = [], []
        with undamaged(self._folder(data_dir)):
            record = _read_records(self._folder(data_dir) / _VERSION, split)
            names = ("sentences", "questions", "answers", "positions")
            for sentences, questions, told, positions in zip(
                *(record[name].to_list() for name in names), strict=True
            ):
                lines = [sentence.decode("utf-8") for sentence in sentences]
                sources += [
                    "\\n".join(lines[:end]) + "\t" + text.decode("utf-8")
                    for text, end in zip(questions, positions, strict=True)
                ]
                answers += [answer.decode("utf-8") for answer in told]
        return sources, answers

    def vocab_files(self, data_dir: Path) -> list[Path]:
        """Returns words.txt (ids from 2) and answers.txt (classes from 0), one symbol a line."""
        return [self._words_file(data_dir), self._answers_file(data_dir)]

    def text_codec(self, vocab_dir: Path) -> StoryCodec:
        """Returns the codec of stories and questions."""
        return StoryCodec(vocab_dir, self.form, self.max_facts)

    def _folder(self, data_dir: Path) -> Path:
        folder: Path = data_dir / BabiStories.name / self._config
        return folder

    def _words_file(self, data_dir: Path) -> Path:
        return self._folder(data_dir) / WORDS_FILE

    def _answers_file(self, data_dir: Path) -> Path:
        return self._folder(data_dir) / ANSWERS_FILE

    def _summary_file(self, data_dir: Path) -> Path:
        return self._folder(data_dir) / "summary.json"

    def _is_prepared(self, data_dir: Path) -> bool:
        files = (self._summary_file(data_dir), *self.vocab_files(data_dir))
        return (
            all(path.is_file() for path in files) and (self._folder(data_dir) / _VERSION).is_dir()
        )

    def _summary(self, data_dir: Path) -> dict[str, Any]:
        """Returns the summary; raises UserError where it or a vocabulary is not as it was
        written.
        """
        with undamaged(self._folder(data_dir)):
            summary: dict[str, Any] = json.loads(
                self._summary_file(data_dir).read_text(encoding="utf-8")
            )
            for name, digest in summary.get("sha256", {}).items():
                if sha256_of(self._folder(data_dir) / name) != digest:
                    raise ValueError(f"{name} is not as it was written")
            summary["max_words"] = int(summary["max_words"])
        return summary

    def _check_prepared(self, split: str, data_dir: Path) -> None:
        if split not in SPLITS:
            raise UserError(
                f"{self.name} has no split {split!r}: expected one of {', '.join(SPLITS)}."
            )
        if not self._is_prepared(data_dir):
            raise UserError(
                f"{self.name} is not prepared in {data_dir}: run ut-datagen --problem={self.name}"
                " with that --data_dir."
            )

    def _load(self, split: str, data_dir: Path) -> _Loaded:
        key = (data_dir, split)
        if key not in self._loaded:
            self._check_prepared(split, data_dir)
            with undamaged(self._folder(data_dir)):
                self._loaded[key] = self._read(split, data_dir)
        return self._loaded[key]

    def _read(self, split: str, data_dir: Path) -> _Loaded:
        record = _read_records(self._folder(data_dir) / _VERSION, split)
        sentences, told = (record[name].flat_values for name in ("sentences", "questions"))
        distinct, numbers = tf.unique(tf.concat([sentences, told], 0))
        ids = (
            WordVocabulary(self._words_file(data_dir))
            .encode(distinct)
            .to_tensor(shape=[None, self._summary(data_dir)["max_words"]])
        )
        classes = {
            answer: number
            for number, answer in enumerate(read_symbols(self._answers_file(data_dir)))
        }
        story = record["questions"].value_rowids().numpy()
        first = record["sentences"].row_splits.numpy()[story]
        return _Loaded(
            words=np.pad(ids.numpy(), [[0, 1], [0, 0]]),
            statements=np.append(numbers.numpy()[: len(sentences)], np.int32(ids.shape[0])),
            stories=first.astype(np.int32),
            ends=(first + record["positions"].flat_values.numpy()).astype(np.int32),
            questions=numbers.numpy()[len(sentences) :],
            answers=np.array(
                [
                    classes[answer.decode("utf-8")]
                    for answer in record["answers"].flat_values.numpy()
                ],
                np.int32,
            ),
            tasks=record["task"].numpy()[story].astype(np.int32),
            supporting=tf.strings.split(record["supporting"].flat_values)
            .row_lengths()
            .numpy()
            .astype(np.int32),
        )

    def _table(self, loaded: _Loaded, order: npt.NDArray[Any]) -> ExampleTable:
        ends, questions = loaded.ends[order], loaded.questions[order]
        begins = np.maximum(loaded.stories[order], ends - self.max_facts)
        if self.form == "facts":
            lengths = ends - begins + 1
        else:
            sizes = np.count_nonzero(loaded.words, axis=1)
            before = np.concatenate([[0], np.cumsum(sizes[loaded.statements])])
            lengths = before[ends] - before[begins] + sizes[questions] + 1
        labels = (loaded.answers[order], loaded.tasks[order], loaded.supporting[order])
        columns = [tf.constant(column, tf.int32) for column in (begins, ends, questions, *labels)]
        statements, words = (
            tf.constant(loaded.statements, tf.int32),
            tf.constant(loaded.words, tf.int32),
        )
        form = self.form

        def batch(numbers: Any) -> dict[str, Any]:
            begin, end, question, answer, task, supporting = (
                tf.gather(column, numbers) for column in columns
            )
            rows = tf.gather(
                words, _sentences(statements, begin, end, question, words.shape[0] - 1)
            )
            inputs = rows if form == "facts" else _flatten(rows)
            return {
                "inputs": inputs,
                "targets": answer,
                "task": task,
                "supporting_facts": supporting,
            }

        return ExampleTable(lengths.astype(np.int32), batch)


def _sha256_if_there(path: Path | None) -> str:
    try:
        return sha256_of(path) if path else ""
    except OSError:
        # Data that is prepared needs no archive, and so no directory of archives that can be read.
        return ""


def _read_records(folder: Path, split: str) -> dict[str, Any]:
    """Returns the features of a whole split: "task" [stories], the others RaggedTensors [stories,
    ...].
    """
    builder = tfds.builder_from_directory(str(folder))
    names = ("task", "sentences", "questions", "answers", "positions", "supporting")
    if split not in builder.info.splits:
        empty = {
            name: tf.RaggedTensor.from_row_lengths(
                tf.constant([], tf.string), tf.constant([], tf.int64)
            )
            for name in names
        }
        return {
            **empty,
            "task": tf.constant([], tf.int32),
            "positions": tf.RaggedTensor.from_row_lengths(np.zeros(0, np.int32), []),
        }
    config = tfds.ReadConfig(interleave_cycle_length=1)
    batches = list(
        builder.as_dataset(split=split, shuffle_files=False, read_config=config).ragged_batch(1024)
    )
    return {name: tf.concat([batch[name] for batch in batches], 0) for name in names}


def _sentences(statements: Any, begin: Any, end: Any, question: Any, empty: int) -> Any:
    """Returns the sentence numbers [batch, rows] of the statements begin..end-1, the question, and
    then the `empty` sentence.
    """
    sizes = (end - begin)[:, tf.newaxis]
    columns = tf.range(tf.reduce_max(sizes) + 1)[tf.newaxis, :]
    facts = tf.gather(
        statements, tf.minimum(begin[:, tf.newaxis] + columns, tf.size(statements) - 1)
    )
    return tf.where(
        columns < sizes, facts, tf.where(columns == sizes, question[:, tf.newaxis], empty)
    )


def _flatten(rows: Any) -> Any:
    """Returns [batch, tokens]: the ids of [batch, rows, words] that are not padding, one after the
    other, and the end.
    """
    flat = tf.reshape(rows, [tf.shape(rows)[0], -1])
    tokens = tf.ragged.boolean_mask(flat, tf.not_equal(flat, 0))
    ends = tf.fill([tf.shape(rows)[0], 1], END_ID)
    return tf.concat([tokens, tf.RaggedTensor.from_tensor(ends)], 1).to_tensor()
