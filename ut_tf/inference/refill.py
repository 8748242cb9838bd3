"""Batches that refill: an example that has halted leaves its slot, and the next one takes it.

::

    refill = Refill(model, slots=64)
    for done in refill(examples):               # dicts with "inputs", int32 [length]
        done.number, done.outputs["logits"], done.steps

In a batch all examples wait for the one that ponders longest. Here each has its own number of
steps: a call takes one recurrent step of all slots. Answers are those of the model as it is used,
by its halting form or exit rule, in the order in which they are ready.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from ut_tf.errors import UserError
from ut_tf.layers.recurrence_details import GivenDepth

Outputs = Callable[[Any, Any, dict[str, Any]], dict[str, Any]]


class Done(NamedTuple):
    """An example that has halted.

    Fields:
      number: of the example, in the order of arrival, from 0.
      outputs: arrays by name, of this example.
      steps: recurrent steps that it took.
    """

    number: int
    outputs: dict[str, Any]
    steps: int


def logits_alone(logits: Any, details: Any, features: dict[str, Any]) -> dict[str, Any]:
    """Returns the logits as the one output."""
    del details, features
    return {"logits": logits}


class Refill:
    """Answers examples in the slots of a batch, in the order in which they are done.

    Args:
      model: Universal Transformer with an encoder alone: of classes, or of an answer at each
        position.
      slots: examples in the batch.
      steps_per_call: recurrent steps between two looks at who has halted: more of them cost less
        time each, and examples stay longer. A divisor of the most steps.
      outputs: makes tensors [slots, ...] by name of (logits, ModelDetails, features), as of a call
        with return_details; default: "logits".

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
        outputs: Outputs = logits_alone,
    ) -> None:
        if not getattr(model, "goes_deeper", False) or model.has_decoder:
            raise UserError(
                "batches refill where a Universal Transformer answers from its encoder, without"
                " recurrence=dwa, position_shift, steps_per_position and random halting: call the"
                " model with whole batches."
            )
        if slots < 1:
            raise UserError(f"`slots`={slots}: expected at least 1.")
        if model.network.eval_restarts > 1:
            raise UserError(
                f"eval_restarts={model.network.eval_restarts} chooses among whole answers, and"
                " batches that refill have each alone: set it to 1, or call the model with whole"
                " batches."
            )
        self.model = model
        self.slots = slots
        self._outputs = outputs
        self._most = model.max_steps(training=False)
        if steps_per_call < 1 or self._most % steps_per_call:
            raise UserError(
                f"`steps_per_call`={steps_per_call}: expected a divisor of the most steps of the"
                f" model, {self._most}."
            )
        self._steps_per_call = steps_per_call
        self._graph = tf.function(self._step, autograph=False, reduce_retracing=True)

    def __call__(self, examples: Iterable[Mapping[str, Any]]) -> Iterator[Done]:
        """Yields each example when it is done.

        Args:
          examples: arrays by feature, all of one length; "inputs" int32 [length, ...] among them.

        Raises:
          UserError: an example has another shape than the first.
        """
        arriving = enumerate(examples)
        held = [-1] * self.slots
        rows: dict[str, Any] = {}
        progress: Any = None
        while True:
            # A slot that nothing has taken begins again and again what it held.
            fresh = [number < 0 for number in held]
            free = [slot for slot, is_free in enumerate(fresh) if is_free]
            for slot, (number, example) in zip(free, arriving, strict=False):
                rows = rows or {name: _zeros(self.slots, value) for name, value in example.items()}
                for name, value in example.items():
                    _check_shape(number, name, value, rows[name])
                    rows[name][slot] = value
                held[slot] = number
            if all(number < 0 for number in held):
                return
            features = {name: tf.constant(values) for name, values in rows.items()}
            outputs, progress, ready, steps = self._graph(features, progress, tf.constant(fresh))
            ready, steps = ready.numpy(), steps.numpy()
            leaving = [slot for slot, done in enumerate(ready) if done and held[slot] >= 0]
            arrays = {name: values.numpy() for name, values in outputs.items() if leaving}
            for slot in leaving:
                own = {name: values[slot].copy() for name, values in arrays.items()}
                yield Done(held[slot], own, int(steps[slot]))
                held[slot] = -1

    def _step(self, features: dict[str, Any], progress: Any, fresh: Any) -> Any:
        """One call of the model: (outputs, progress, which examples are done, bool [slots], the
        steps that they took, int32 [slots]).
        """
        begun = 0 if progress is None else tf.where(fresh[:, None], 0, progress.steps)
        steps = begun + tf.fill([self.slots, 1], self._steps_per_call)
        depth = GivenDepth(steps, progress, fresh)
        given = {**features, "to_depth": depth}
        logits, details = self.model(given, training=False, return_details=True)
        progress = details.encoder.progress
        ready = tf.logical_or(~progress.active, steps[:, 0] >= self._most)
        return self._outputs(logits, details, features), progress, ready, steps[:, 0]


def _check_shape(number: int, name: str, value: Any, rows: Any) -> None:
    if np.shape(value) != rows.shape[1:]:
        raise UserError(
            f"example {number}: {name!r} has the shape {np.shape(value)}, and that of the first"
            f" {rows.shape[1:]}: pad all to one length with zeros."
        )


def _zeros(slots: int, value: Any) -> Any:
    value = np.asarray(value)
    return np.zeros([slots, *value.shape], value.dtype)
