"""Stories and questions as text, and the lines of bAbI's own files.

How it is used::

    codec = StoryCodec(vocab_dir, form="facts", max_facts=70)
    story, question = "Mary moved to the hall.\\nJohn left.", "Where is Mary?"
    codec.encode(tf.constant([story]), tf.constant([question]))["inputs"]     # [1, 3, 5]
    codec.decode(tf.constant([4]))                                            # ["hallway"]

Newlines separate the sentences of a story; the last ``max_facts`` sentences with a word are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import tensorflow as tf

from ut_tf.data.text.codec import TextCodec
from ut_tf.data.text.vocabulary import (
    UNKNOWN,
    WordVocabulary,
    distinct_words,
    read_symbols,
)
from ut_tf.problems.babi.lines import questions
from ut_tf.symbols import END_ID, FIRST_SYMBOL_ID

WORDS_FILE = "words.txt"
ANSWERS_FILE = "answers.txt"
_UNKNOWN_ANSWER = -1


class StoryCodec(TextCodec):
    """The text form of ``StoryQuestions``.

    Args:
      vocab_dir: holds words.txt and answers.txt.
      form: "facts" or "tokens", see StoryQuestions.
      max_facts: sentences before the question that are kept, the last ones.

    Raises:
      UserError: a vocabulary is missing or empty.
    """

    fields: ClassVar[tuple[str, ...]] = ("story", "question")

    def __init__(self, vocab_dir: Path, form: Literal["facts", "tokens"], max_facts: int) -> None:
        super().__init__(name="story_codec")
        self._form = form
        self._max_facts = max_facts
        self._words = WordVocabulary(vocab_dir / WORDS_FILE)
        answers = read_symbols(vocab_dir / ANSWERS_FILE)
        self._answers = tf.constant(answers)
        classes = tf.lookup.KeyValueTensorInitializer(
            self._answers, tf.range(len(answers), dtype=tf.int64)
        )
        self._classes = tf.lookup.StaticHashTable(classes, default_value=_UNKNOWN_ANSWER)
        self.vocab_sizes = (len(self._words), len(answers))
        self._tokens = tf.constant(["", self.end_token, *self._words.words])

    def encode(self, *texts: Any) -> dict[str, Any]:
        """Returns {"inputs"}: int32 [batch, rows, words] of facts, each example's question after
        its last, or [batch, length] of tokens.

        Args:
          texts: stories and questions, strings [batch] each. A question without a word counts as
            one unknown word.
        """
        stories, questions = texts
        rows = tf.concat(
            [self._last_facts(stories), tf.expand_dims(self._question(questions), 1)], 1
        )
        if self._form == "facts":
            return {"inputs": rows.to_tensor()}
        ends = tf.fill([tf.shape(questions)[0], 1], END_ID)
        return {
            "inputs": (
                tf.concat([rows.merge_dims(1, 2), tf.RaggedTensor.from_tensor(ends)], 1).to_tensor()
            )
        }

    def encode_targets(self, texts: Any) -> Any:
        """Returns the classes, int32 [batch], of answers, strings [batch]; -1 for what is no answer
        in the vocabulary.
        """
        plain = tf.strings.lower(tf.strings.strip(texts), encoding="utf-8")
        return tf.cast(self._classes.lookup(plain), tf.int32)

    def decode(self, outputs: Any) -> Any:
        """Returns the answers, strings [batch], of classes int32 [batch]."""
        return tf.gather(self._answers, outputs)

    def tokens(self, features: dict[str, Any]) -> Any:
        """Returns the word at each position of features["inputs"] or, of facts, the sentence of
        each row, strings [batch, length].
        """
        words = tf.gather(self._tokens, features["inputs"])
        return (
            words
            if self._form == "tokens"
            else tf.strings.strip(tf.strings.reduce_join(words, axis=-1, separator=" "))
        )

    def input_text(self, tokens: Sequence[str]) -> str:
        """Numbered lines in bAbI's format, the last of which is the question; of tokens, which do
        not tell where a sentence ends, one line.
        """
        lines = list(tokens) if self._form == "facts" else [super().input_text(tokens)]
        numbered = [f"{number} {line}" for number, line in enumerate(lines, start=1)]
        return "\n".join(numbered) + "?"

    def words(self, texts: Iterable[str]) -> list[str]:
        """The words in stories and questions, each once, sorted."""
        sentences = [*dict.fromkeys(sentence for text in texts for sentence in text.split("\n"))]
        return distinct_words(tf.constant(sentences)) if sentences else []

    def unknown_words(self, texts: Iterable[str]) -> list[str]:
        """The words in stories and questions that words.txt lacks, each once, sorted."""
        return sorted({*self.words(texts)} - {*self._words.words})

    @property
    def known_words(self) -> list[str]:
        """The words of words.txt."""
        return [word for word in self._words.words if word != UNKNOWN]

    def read(self, lines: Iterable[str], name: str) -> Iterator[tuple[str, ...]]:
        """Yields (story, question) for each question of a file in bAbI's format or of plain
        sentences, as soon as its line is read.

        A line with a tab, or whose text ends in "?", is a question; its answer may be there, and is
        not looked at.

        Raises:
          UserError: names the file and the line that is not of the format.
        """
        yield from questions(lines, name)

    def _last_facts(self, stories: Any) -> Any:
        """Returns the ids of the last sentences of stories, strings [batch], as a RaggedTensor
        [batch, facts, words].
        """
        sentences = tf.strings.split(stories, "\n")
        words = self._words.encode(sentences.flat_values)
        sizes = words.row_lengths()
        numbers = sentences.with_flat_values(tf.range(tf.size(sizes)))
        spoken = tf.ragged.boolean_mask(numbers, numbers.with_flat_values(sizes > 0))
        counts = spoken.row_lengths()
        places = tf.ragged.range(counts)
        recent = tf.ragged.boolean_mask(spoken, places >= (counts - self._max_facts)[:, tf.newaxis])
        return recent.with_flat_values(tf.gather(words, recent.flat_values))

    def _question(self, questions: Any) -> Any:
        """Returns the ids of questions, strings [batch], as a RaggedTensor [batch, words] without
        an empty row.
        """
        words = self._words.encode(questions)
        empty = tf.equal(words.row_lengths(), 0)[:, tf.newaxis]
        return tf.concat(
            [words, tf.ragged.boolean_mask(tf.where(empty, FIRST_SYMBOL_ID, 0), empty)], 1
        )
