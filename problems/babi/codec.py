"""Stories and questions as text, and the lines of bAbI's own files.

How it is used::

    codec = StoryCodec(vocab_dir, form="facts", max_facts=70)
    story, question = "Mary moved to the hall.\\nJohn left.", "Where is Mary?"
    codec.encode(tf.constant([story]), tf.constant([question]))["inputs"]     # [1, 3, 5]
    codec.decode(tf.constant([4]))                                            # ["hallway"]

A sentence of a story ends with its line, or with a point or exclamation mark; the last
``max_facts`` sentences with a word are kept.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import tensorflow as tf

from ut_tf.data.text.codec import TextCodec, append_ends
from ut_tf.data.text.refusals import first_of, quoted, text_where, without_known_word
from ut_tf.data.text.sentences import SENTENCE_ENDS
from ut_tf.data.text.vocabulary import UNKNOWN, WordVocabulary, read_symbols, symbol_table
from ut_tf.problems.babi.lines import questions
from ut_tf.symbols import FIRST_SYMBOL_ID

WORDS_FILE = "words.txt"
ANSWERS_FILE = "answers.txt"
_UNKNOWN_ANSWER = -1
_QUESTION_IN_STORY = r"(?s).*[?\t].*"
_ONE_QUESTION = r"[^.?!\t\n]*[^\pL\pN\t\n]*"


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
    fields_of_lines: ClassVar[tuple[str, ...]] = ("story",)

    def __init__(self, vocab_dir: Path, form: Literal["facts", "tokens"], max_facts: int) -> None:
        super().__init__(name="story_codec")
        self._form = form
        self._max_facts = max_facts
        self._words = WordVocabulary(vocab_dir / WORDS_FILE)
        answers = read_symbols(vocab_dir / ANSWERS_FILE)
        self._answers = tf.constant(answers)
        self._classes = symbol_table(answers, 0, _UNKNOWN_ANSWER)
        self.vocab_sizes = (len(self._words), len(answers))
        self.written = tf.constant(["", self.end_token, *self._words.words])

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
        return {"inputs": append_ends(rows.merge_dims(1, 2))}

    def errors(self, *texts: Any) -> Any:
        """Refuses a question inside a story, and a question of several sentences, without a word,
        or without one that the model knows.
        """
        stories, questions = texts
        has_question = tf.strings.regex_full_match(stories, _QUESTION_IN_STORY)
        asks = tf.strings.regex_full_match(tf.strings.strip(questions), _ONE_QUESTION)
        found = self._words.found(questions)
        no_word = found[0].row_lengths() == 0
        return first_of(
            text_where(
                has_question,
                tf.strings.join(
                    ["the story ", quoted(stories), " has a question: expected statements alone"]
                ),
            ),
            text_where(
                ~asks,
                tf.strings.join(
                    ["the question ", quoted(questions), " has several sentences: expected one"]
                ),
            ),
            text_where(
                no_word,
                tf.strings.join(["the question ", quoted(questions), " has no word: expected one"]),
            ),
            without_known_word(found, "the question"),
        )

    def left_out(self, *texts: Any) -> Any:
        """Tells of the sentences before the last ``max_facts``."""
        counts = self._facts(texts[0])[0].row_lengths()
        told = f" facts: those before the last {self._max_facts} are left out"
        sentence = tf.strings.join(["has ", tf.strings.as_string(counts), told])
        return text_where(counts > self._max_facts, sentence)

    def word_list(self, texts: Any) -> tuple[Any, Any]:
        """The words of stories and questions, and whether words.txt has each."""
        return self._words.found(texts)

    def encode_targets(self, texts: Any) -> Any:
        """The classes, int32 [batch], of answers, strings [batch]; -1: not in the vocabulary."""
        plain = tf.strings.lower(tf.strings.strip(texts), encoding="utf-8")
        return tf.cast(self._classes.lookup(plain), tf.int32)

    def decode(self, outputs: Any) -> Any:
        """Returns the answers, strings [batch], of classes int32 [batch]."""
        return tf.gather(self._answers, tf.cast(outputs, tf.int32))

    def tokens(self, features: dict[str, Any]) -> Any:
        """Returns the word at each position of features["inputs"] or, of facts, the sentence of
        each row, strings [batch, length].
        """
        words = super().tokens(features)
        if self._form == "tokens":
            return words
        return tf.strings.strip(tf.strings.reduce_join(words, axis=-1, separator=" "))

    def input_text(self, tokens: Sequence[str]) -> str:
        """Numbered lines in bAbI's format, the last of which is the question; of tokens, which do
        not tell where a sentence ends, one line.
        """
        lines = list(tokens) if self._form == "facts" else [super().input_text(tokens)]
        numbered = [f"{number} {line}" for number, line in enumerate(lines, start=1)]
        return "\n".join(numbered) + "?"

    @property
    def known_words(self) -> list[str]:
        """The words of words.txt."""
        return [word for word in self._words.words if word != UNKNOWN]

    def examples_in(self, lines: Iterable[str], name: str) -> Iterator[tuple[int, tuple[str, ...]]]:
        """Yields the line of each question of a file in bAbI's format or of plain sentences, and
        (story, question), as soon as that line is read.

        A line with a tab, or whose text ends in "?", is a question; its answer may be there, and is
        not looked at.

        Raises:
          UserError: names the file and the line that is not of the format.
        """
        for count, story, question in questions(lines, name):
            yield count, (story, question)

    def _last_facts(self, stories: Any) -> Any:
        """Returns the ids of the last sentences of stories, strings [batch], as a RaggedTensor
        [batch, facts, words].
        """
        spoken, words = self._facts(stories)
        counts = spoken.row_lengths()
        places = tf.ragged.range(counts)
        recent = tf.ragged.boolean_mask(spoken, places >= (counts - self._max_facts)[:, tf.newaxis])
        return recent.with_flat_values(tf.gather(words, recent.flat_values))

    def _facts(self, stories: Any) -> tuple[Any, Any]:
        """The sentences with a word of stories, strings [batch]: their numbers, a RaggedTensor
        [batch, facts], in the ids of all sentences, a RaggedTensor [sentences, words].
        """
        lines = tf.strings.regex_replace(stories, SENTENCE_ENDS, "\n")
        sentences = tf.strings.split(lines, "\n")
        words = self._words.encode(sentences.flat_values)
        sizes = words.row_lengths()
        numbers = sentences.with_flat_values(tf.range(tf.size(sizes)))
        return tf.ragged.boolean_mask(numbers, numbers.with_flat_values(sizes > 0)), words

    def _question(self, questions: Any) -> Any:
        """Returns the ids of questions, strings [batch], as a RaggedTensor [batch, words] without
        an empty row.
        """
        words = self._words.encode(questions)
        empty = tf.equal(words.row_lengths(), 0)[:, tf.newaxis]
        return tf.concat(
            [words, tf.ragged.boolean_mask(tf.where(empty, FIRST_SYMBOL_ID, 0), empty)], 1
        )
