"""A split of questions in memory, and its examples as facts or as one sequence.

Every distinct sentence is kept as word ids once; an example is a range of sentence numbers, so that
all examples of all twenty tasks stay in memory.
"""

from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from ut_tf.data.example_table import ExampleTable
from ut_tf.data.text.codec import append_ends
from ut_tf.data.text.vocabulary import WordVocabulary
from ut_tf.problems.babi.exchange import WordExchange

Form = Literal["facts", "tokens"]
Indices = npt.NDArray[np.int32]


@dataclass(frozen=True)
class QuestionSplit:
    """A split in memory. Sentence numbers are rows of `words`; the statements of all stories follow
    one another.

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

    @classmethod
    def of_records(
        cls,
        records: dict[str, Any],
        vocabulary: WordVocabulary,
        classes: dict[str, int],
        max_words: int,
    ) -> Self:
        """The split of ``records.read_records``.

        Args:
          records: the features of the split.
          vocabulary: of the words.
          classes: the class of each answer.
          max_words: words of the longest sentence.
        """
        sentences, questions = (records[name].flat_values for name in ("sentences", "questions"))
        distinct, numbers = tf.unique(tf.concat([sentences, questions], 0))
        ids = vocabulary.encode(distinct).to_tensor(shape=[None, max_words])
        story = records["questions"].value_rowids().numpy()
        first = records["sentences"].row_splits.numpy()[story]
        answers = [classes[text.decode("utf-8")] for text in records["answers"].flat_values.numpy()]
        supporting = tf.strings.split(records["supporting"].flat_values).row_lengths()
        return cls(
            words=np.pad(ids.numpy(), [[0, 1], [0, 0]]),
            statements=np.append(numbers.numpy()[: len(sentences)], np.int32(ids.shape[0])),
            stories=first.astype(np.int32),
            ends=(first + records["positions"].flat_values.numpy()).astype(np.int32),
            questions=numbers.numpy()[len(sentences) :],
            answers=np.array(answers, np.int32),
            tasks=records["task"].numpy()[story].astype(np.int32),
            supporting=supporting.numpy().astype(np.int32),
        )

    def table(
        self,
        order: npt.NDArray[Any],
        form: Form,
        max_facts: int,
        exchange: WordExchange | None = None,
    ) -> ExampleTable:
        """The examples in an order: int [questions].

        Args:
          order: numbers of the questions.
          form: "facts" or "tokens", see StoryQuestions.
          max_facts: an example has the last so many facts before its question.
          exchange: of the words of each question; None: they stay.
        """
        ends, questions = self.ends[order], self.questions[order]
        begins = np.maximum(self.stories[order], ends - max_facts)
        if form == "facts":
            lengths = ends - begins + 1
        else:
            sizes = np.count_nonzero(self.words, axis=1)
            before = np.concatenate([[0], np.cumsum(sizes[self.statements])])
            lengths = before[ends] - before[begins] + sizes[questions] + 1
        exchanges = exchange.numbers if exchange else np.zeros_like(self.tasks)
        labels = (self.answers[order], self.tasks[order], self.supporting[order], exchanges[order])
        columns = [tf.constant(column, tf.int32) for column in (begins, ends, questions, *labels)]
        statements = tf.constant(self.statements, tf.int32)
        words = tf.constant(self.words, tf.int32)
        empty = words.shape[0] - 1

        def batch(numbers: Any) -> dict[str, Any]:
            begin, end, question, answer, task, supporting, exchange_number = (
                tf.gather(column, numbers) for column in columns
            )
            rows = tf.gather(words, _sentences(statements, begin, end, question, empty))
            if exchange:
                rows, answer = exchange.exchanged(exchange_number, rows, answer)
            return {
                "inputs": rows if form == "facts" else _flatten(rows),
                "targets": answer,
                "task": task,
                "supporting_facts": supporting,
            }

        return ExampleTable(lengths.astype(np.int32), batch)


def _sentences(statements: Any, begin: Any, end: Any, question: Any, empty: int) -> Any:
    """The sentence numbers [batch, rows] of the statements begin..end-1, the question, and then the
    `empty` sentence.
    """
    sizes = (end - begin)[:, tf.newaxis]
    columns = tf.range(tf.reduce_max(sizes) + 1)[tf.newaxis, :]
    places = tf.minimum(begin[:, tf.newaxis] + columns, tf.size(statements) - 1)
    facts = tf.gather(statements, places)
    ending = tf.where(columns == sizes, question[:, tf.newaxis], empty)
    return tf.where(columns < sizes, facts, ending)


def _flatten(rows: Any) -> Any:
    """[batch, tokens]: the ids of [batch, rows, words] joined without padding, and the end."""
    flat = tf.reshape(rows, [tf.shape(rows)[0], -1])
    return append_ends(tf.ragged.boolean_mask(flat, tf.not_equal(flat, 0)))
