"""Raw texts as what a model reads, in graph, with a word about each text that cannot be read or of
which something is left out: the same for a translator and for an exported model.

How it is used::

    reader = Reader(codec, model.spec, DecodeConfig())
    reading = reader.inputs(tf.constant(["1x2", "31415"]))
    reading.errors             # ["'1x2' is not what this problem reads: expected digits ...", ""]
"""

from typing import Any, NamedTuple

import tensorflow as tf

from ut_tf.data.text.codec import TextCodec
from ut_tf.data.text.refusals import first_of, text_where
from ut_tf.errors import UserError
from ut_tf.inference.cutting import count, cut, last, without_end
from ut_tf.problem_spec import ProblemSpec
from ut_tf.search.config import DecodeConfig
from ut_tf.symbols import PADDING_ID

CHARACTERS_PER_SYMBOL = 32
"""Characters of a text that are looked at, for each symbol that may be read."""


class Reading(NamedTuple):
    """The texts of a batch as ids, and what is to be said about each example.

    Fields:
      ids: int32 [batch, length], of facts [batch, rows, words], of classes [batch]; those of
        examples with an error mean nothing.
      errors: strings [batch]: a sentence, without its point, where an example cannot be read; "".
      warnings: strings [batch]: the end of a sentence that begins with the example, where something
        of it is left out, such as "has more than max_input_length=9 symbols: the last ones are left
        out"; "".
      blank: bool [batch]: the example has no text at all.
    """

    ids: Any
    errors: Any
    warnings: Any
    blank: Any


class Reader:
    """Reads texts for a model.

    Args:
      codec: text form of the model's problem.
      spec: of the problem.
      config: has the bound of what is read, ``max_input_length``, and that of outputs.
    """

    def __init__(self, codec: TextCodec, spec: ProblemSpec, config: DecodeConfig) -> None:
        self._codec = codec
        self._spec = spec
        self._longest = config.longest
        self._most = config.max_input_length
        self._keeps_end = spec.has_one_answer

    def inputs(self, *texts: Any) -> Reading:
        """Reads the inputs of examples, strings [batch] in UTF-8 for each field of the codec.
        Beyond ``max_input_length`` the last symbols are left out, the first where one answer
        follows.
        """
        limited = [self._limited(text, self._keeps_end) for text in texts]
        kept = [text for text, _ in limited]
        blank = tf.strings.strip(tf.strings.join(kept)) == ""
        errors = self._codec.errors_unless_blank(*kept)
        kept = [text_where(errors == "", text) for text in kept]
        ids = self._codec.encode(*kept)["inputs"]
        read, cut_off = (self._facts if ids.shape.rank == 3 else self._symbols)(ids)
        warnings = (warning for _, warning in limited)
        told = _sentences(self._codec.left_out(*kept), cut_off, *warnings)
        return Reading(_with_a_position(read), errors, text_where(errors == "", told), blank)

    def prompts(self, texts: Any) -> Reading:
        """Reads texts that a language model goes on from, strings [batch]: targets without the end.
        Beyond ``max_input_length`` the first symbols are left out.
        """
        texts, warning = self._limited(texts, keeps_end=True)
        errors = self._codec.target_errors(texts)
        texts = text_where(errors == "", texts)
        ids = without_end(self._codec.encode_targets(texts))
        told = text_where(count(ids) > self._most, self._too_long(keeps_end=True))
        ids = _with_a_position(last(ids, self._most))
        symbols, room = count(ids), self._longest or ids.dtype.max
        no_room = [
            "the prompt has ",
            tf.strings.as_string(symbols),
            f" symbols, and an output has at most {room}, the prompt's included: shorten it, raise"
            " max_length, or give extra_length",
        ]
        errors = first_of(errors, text_where(symbols >= room, tf.strings.join(no_room)))
        warning = _sentences(told, warning)
        return Reading(ids, errors, text_where(errors == "", warning), tf.equal(texts, ""))

    def targets(self, texts: Any) -> Reading:
        """Reads targets, strings [batch]; one with more than ``max_input_length`` symbols is an
        error, since what begins with it has another probability.
        """
        texts, beyond = self._limited(texts, keeps_end=False)
        blank = tf.strings.strip(texts) == ""
        told = f"the target has more than max_input_length={self._most} symbols: raise it"
        errors = first_of(text_where(beyond != "", told), self._codec.target_errors(texts))
        ids = self._codec.encode_targets(text_where(errors == "", texts))
        if ids.shape.rank == 1:
            return Reading(ids, errors, tf.zeros_like(errors), blank)
        errors = first_of(errors, text_where(count(ids) > self._most, told))
        ids = _with_a_position(ids[:, : self._most])
        return Reading(ids, errors, tf.zeros_like(errors), blank)

    def _limited(self, texts: Any, keeps_end: bool) -> tuple[Any, Any]:
        """The characters of texts, strings [batch], that are looked at, and a warning of others."""
        most = CHARACTERS_PER_SYMBOL * self._most
        length = tf.strings.length(texts, "UTF8_CHAR")
        start = tf.maximum(length - most, 0) if keeps_end else tf.zeros_like(length)
        kept = tf.strings.substr(texts, start, tf.fill(tf.shape(start), most), "UTF8_CHAR")
        told = f"has more than {most} characters: the {_which(keeps_end)} ones are left out"
        return kept, text_where(length > most, told)

    def _symbols(self, ids: Any) -> tuple[Any, Any]:
        warnings = text_where(count(ids) > self._most, self._too_long(self._keeps_end))
        return (last if self._keeps_end else cut)(ids, self._most), warnings

    def _facts(self, ids: Any) -> tuple[Any, Any]:
        most = self._spec.max_words
        has_more = tf.reduce_any(ids[:, :, most:] != PADDING_ID, [1, 2])
        told = f"has a sentence of more than {most} words: the last ones are left out"
        return ids[:, :, :most], text_where(has_more, told)

    def _too_long(self, keeps_end: bool) -> str:
        which = _which(keeps_end)
        return f"has more than max_input_length={self._most} symbols: the {which} ones are left out"


def refuse_puzzles(model: Any) -> None:
    """Raises UserError where a model answers by the number of a puzzle, which no text has."""
    if (count := getattr(model, "num_puzzles", 0)) > 1:
        raise UserError(
            f"the model has a memory for each of {count} puzzles, and a text does not say which one"
            ' it is of: call the model, or what its method `export` writes, with "inputs" and'
            ' "puzzles".'
        )


def _which(keeps_end: bool) -> str:
    return "first" if keeps_end else "last"


def _sentences(*parts: Any) -> Any:
    """Strings [batch] of the parts that are not empty, as one sentence's end."""
    whole, *others = parts
    for part in others:
        both = tf.logical_and(whole != "", part != "")
        whole = tf.strings.join([whole, tf.where(both, ", and ", ""), part])
    return whole


def _with_a_position(ids: Any) -> Any:
    """ids [batch, length, ...] with one position of padding where there is none, which no
    network can read.
    """
    missing = tf.maximum(1 - tf.shape(ids)[1], 0)
    return tf.pad(ids, [[0, 0], [0, missing], [0, 0]][: ids.shape.rank])
