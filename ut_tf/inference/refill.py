"""Batches that refill: an example that has halted leaves its slot, and the next one takes it.

::

    refill = Refill(model, slots=64)
    for done in refill(examples):               # dicts with "inputs", int32 [length]
        done.number, done.outputs["logits"], done.steps

    loaded = ut_tf.load("sudoku4")
    for done in Refill(loaded.model, codec=loaded.run.text_codec())(texts):
        done.number, done.outputs["text"], done.steps

In a batch all examples wait for the one that ponders longest. Here each has its own number of
steps: a call takes one recurrent step of all slots. Answers are those of the model as it is used,
by its halting form or exit rule, in the order in which they are ready.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from ut_tf.data.text.codec import TextCodec
from ut_tf.errors import UserError
from ut_tf.inference.answers import Answers
from ut_tf.inference.example_reader import ExampleReader
from ut_tf.layers.recurrence_details import GivenDepth
from ut_tf.notices import warn
from ut_tf.search.config import DecodeConfig

Outputs = Callable[[Any, Any, dict[str, Any]], dict[str, Any]]
_BLANK = "blank"


class Done(NamedTuple):
    """An example that has halted.

    Fields:
      number: of the example, in the order of arrival, from 0.
      outputs: arrays by name, of this example; "text" is a str.
      steps: recurrent steps that it took.
    """

    number: int
    outputs: dict[str, Any]
    steps: int


def logits_alone(logits: Any, details: Any, features: dict[str, Any]) -> dict[str, Any]:
    """Returns the logits as the one output."""
    del details, features
    return {"logits": logits}


def can_refill(model: Any) -> bool:
    """Whether a model answers from an encoder whose depth can be cut."""
    return bool(getattr(model, "goes_deeper", False)) and not model.has_decoder


class Refill:
    """Answers examples in the slots of a batch, in the order in which they are done.

    Args:
      model: Universal Transformer with an encoder alone: of classes, or of an answer at each
        position.
      slots: examples in the batch.
      steps_per_call: recurrent steps between two looks at who has halted: more of them cost less
        time each, and examples stay longer. A divisor of the most steps.
      outputs: makes tensors [slots, ...] by name of (logits, ModelDetails, features), as of a call
        with return_details; None: "logits", and with a codec "text" and "score", its
        log-probability.
      codec: text form of the model's problem, with which examples are texts, as of
        ``Translator.translate``; None: they are arrays.
      length: positions that an example has room for, where the first `slots` examples have no more;
        padding of 0 fills them up.

    Raises:
      UserError: the model decodes, chooses among restarts, or its depth cannot be cut
        (recurrence=dwa, position_shift, steps_per_position, random halting); or `slots` or
        `steps_per_call` is out of range.
    """

    def __init__(
        self,
        model: Any,
        slots: int = 64,
        steps_per_call: int = 1,
        outputs: Outputs | None = None,
        codec: TextCodec | None = None,
        length: int = 0,
    ) -> None:
        _check_model(model)
        if slots < 1:
            raise UserError(f"`slots`={slots}: expected at least 1.")
        most = model.max_steps(training=False)
        if steps_per_call < 1 or most % steps_per_call:
            raise UserError(
                f"`steps_per_call`={steps_per_call}: expected a divisor of the most steps of the"
                f" model, {most}."
            )
        self.model = model
        self.slots = slots
        self._steps_per_call = steps_per_call
        self._codec = codec
        self._length = length
        self._outputs = outputs or (logits_alone if codec is None else _texts_of(model, codec))
        self._graph = tf.function(self._step, autograph=False, reduce_retracing=True)

    def __call__(self, examples: Iterable[Any]) -> Iterator[Done]:
        """Yields each example when it is done.

        Args:
          examples: arrays by feature, "inputs" int32 [length, ...] among them; with a codec texts.

        Raises:
          UserError: an example is longer than there is room for, or cannot be read.
        """
        numbered = enumerate(examples if self._codec is None else self._read(examples))
        first = list(islice(numbered, self.slots))
        arriving = chain(first, numbered)
        held = [-1] * self.slots
        rows = self._zeros([example for _, example in first])
        progress: Any = None
        while True:
            # A slot that nothing has taken begins again and again what it held.
            fresh = [number < 0 for number in held]
            free = [slot for slot, is_free in enumerate(fresh) if is_free]
            for slot, (number, example) in zip(free, arriving, strict=False):
                for name, value in example.items():
                    _put(number, name, value, rows[name][slot : slot + 1])
                held[slot] = number
            if all(number < 0 for number in held):
                return
            features = {name: tf.constant(values) for name, values in rows.items()}
            outputs, progress = self._graph(features, progress, tf.constant(fresh))
            steps, active = progress.steps.numpy()[:, 0], progress.active.numpy()
            leaving = [slot for slot in range(self.slots) if held[slot] >= 0 and not active[slot]]
            arrays = {name: values.numpy() for name, values in outputs.items() if leaving}
            for slot in leaving:
                own = {name: _own(values[slot]) for name, values in arrays.items()}
                yield Done(held[slot], own, int(steps[slot]))
                held[slot] = -1

    def _step(self, features: dict[str, Any], progress: Any, fresh: Any) -> Any:
        """One call of the model: (outputs, progress)."""
        depth = GivenDepth(tf.constant(self._steps_per_call), progress, fresh)
        given = {**features, "to_depth": depth}
        logits, details = self.model(given, training=False, return_details=True)
        return self._outputs(logits, details, features), details.encoder.progress

    def _read(self, examples: Iterable[Any]) -> Iterator[dict[str, Any]]:
        """The features of examples that are texts."""
        assert self._codec is not None
        reader = ExampleReader(self._codec, self.model.spec, DecodeConfig())
        given = ((number, (reader.texts_of(one), None)) for number, one in enumerate(examples))
        while some := dict(islice(given, self.slots)):
            for row in reader.read(some):
                where = f"example {row.example.number}"
                if row.error:
                    raise UserError(f"{where}: {row.error}.")
                if row.warning:
                    warn(f"{where} {row.warning}.")
                yield {"inputs": row.example.inputs, _BLANK: np.bool_(row.blank)}

    def _zeros(self, first: list[dict[str, Any]]) -> dict[str, Any]:
        """Rows of the features, with room for the first examples; those with a value at each
        position have one at `length` of them.
        """
        rows: dict[str, Any] = {}
        length = max([self._length, 1, *(len(example["inputs"]) for example in first)])
        for name, value in (first[0] if first else {}).items():
            value = np.asarray(value)
            of_positions = value.ndim and len(value) == len(first[0]["inputs"])
            shape = (length, *value.shape[1:]) if of_positions else value.shape
            rows[name] = np.zeros([self.slots, *shape], value.dtype)
        return rows


def _check_model(model: Any) -> None:
    restarts = getattr(getattr(model, "network", None), "eval_restarts", 1)
    if restarts > 1:
        raise UserError(
            f"eval_restarts={restarts} chooses among whole answers, and batches that refill have"
            " each alone: set it to 1, or call the model with whole batches."
        )
    if not can_refill(model):
        raise UserError(
            "batches refill where a Universal Transformer answers from its encoder, without"
            " recurrence=dwa, position_shift, steps_per_position and random halting: call the"
            " model with whole batches."
        )


def _texts_of(model: Any, codec: TextCodec) -> Outputs:
    """The outputs of examples that are texts."""
    answers = Answers(model, codec, DecodeConfig())

    def outputs(logits: Any, details: Any, features: dict[str, Any]) -> dict[str, Any]:
        del details
        texts, scores = answers.best(logits, features["inputs"])
        blank = features[_BLANK]
        return {"text": tf.where(blank, "", texts), "score": tf.where(blank, 0.0, scores)}

    return outputs


def _put(number: int, name: str, value: Any, row: Any) -> None:
    """Writes the value of an example into its row, [1, ...]."""
    shape, room = np.shape(value), row.shape[1:]
    if len(shape) != len(room) or any(np.greater(shape, room)):
        raise UserError(
            f"example {number}: {name!r} has the shape {shape}, and there is room for {room}:"
            " give the `length` of the longest example."
        )
    row[...] = 0
    row[(0, *map(slice, shape))] = value


def _own(value: Any) -> Any:
    """The output of one example, apart from those of others."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value.copy()
