"""The steps of a model's encoder and decoder over one example, as arrays.

How it is used::

    observed = observe(model, {"inputs": inputs, "targets": targets})  # a batch of one example
    observed.encoder.state_changes                                       # [steps, length]
    observed.logits                                                      # [length, vocab_size]

A Universal Transformer shows its recurrent steps, a Transformer its layers. Of other models only
what their details hold is known.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from ut_tf.layers.recurrence_details import RecurrenceDetails, StepView
from ut_tf.models.interfaces import CallOptions, Encoded
from ut_tf.models.memory_transformer.memory import MemoryStack
from ut_tf.models.universal_transformer.given_depth import residuals_of
from ut_tf.models.universal_transformer.mixed import MixedStack


class PartSteps(NamedTuple):
    """What an encoder or a decoder did with one example.

    Fields:
      ponder_times: float32 [length], of learned memory vectors the number of steps.
      remainders: float32 [length].
      steps: steps that were taken.
      memory_size: learned memory vectors, which are the first positions.
      halting_probabilities: float32 [steps, length], or None at fixed depth.
      state_changes: float32 [steps, length], ‖s_t - s_(t-1)‖ / ‖s_t‖; None where no states are
        shown.
      low_state_changes: the same of the low state of steps of two levels, or None.
      residuals: float32 [levels, steps] of a recurrence, the mean over the counted positions of
        ‖s_t - s_(t-1)‖ / ‖s_(t-1)‖, of the state (or the high one, then the low one), or None.
      q_halt: float32 [steps], σ of the Q value of halting, or None.
      attention: float32 [steps, heads, length, length], or None; where a step has several layers,
        their heads stand one behind the other.
      memory_attention: float32 [steps, heads, length, memory_length] over the encoder's positions,
        or None.
      views: StepView of each step; none where the model shows no steps.
      answers: whether the head reads the outputs of the steps.
    """

    ponder_times: np.ndarray
    remainders: np.ndarray
    steps: int
    memory_size: int = 0
    halting_probabilities: np.ndarray | None = None
    state_changes: np.ndarray | None = None
    low_state_changes: np.ndarray | None = None
    residuals: np.ndarray | None = None
    q_halt: np.ndarray | None = None
    attention: np.ndarray | None = None
    memory_attention: np.ndarray | None = None
    views: tuple[StepView, ...] = ()
    answers: bool = False


class Observed(NamedTuple):
    """What a model did with one example.

    Fields:
      logits: float32 [vocab_size or classes], of a decoder [target_length, vocab_size], or of
        aligned targets [length, vocab_size].
      encoder, decoder: PartSteps, or None where the model has none or does not show it.
      step_logits: of the part that is answered from, a tensor like `logits` for each step; empty
        where the model shows no steps.
    """

    logits: np.ndarray
    encoder: PartSteps | None
    decoder: PartSteps | None
    step_logits: tuple[Any, ...]


def observe(model: Any, features: dict[str, Any]) -> Observed:
    """Runs a model eagerly over one example and keeps what it shows of its steps.

    Args:
      model: an ``EncoderDecoder``.
      features: a batch of one example without padding; with "targets" where the model decodes,
        with "puzzles" where it answers by them.
    """
    encoded, encoder, decoder = None, None, None
    head: Callable[[Any], Any]
    if model.has_encoder:
        views: list[StepView] = []
        options = CallOptions(False, True, views.append, puzzles=features.get("puzzles"))
        encoded = model.encode(features, options)
        encoder = _part(
            getattr(model, "encoder", None), encoded.details, views, not model.has_decoder
        )
    if model.has_decoder:
        views = []
        states, details = model.decode(
            features["targets"], encoded, CallOptions(False, True, views.append)
        )
        if details is not None:
            decoder = _part(getattr(model, "decoder", None), details, views, True)
        head = model.token_logits
    else:
        assert isinstance(encoded, Encoded)
        states = encoded.states
        head = functools.partial(model.class_logits, features, encoded)
    answering = decoder or encoder
    assert answering is not None
    shown = answering.views if answering.answers else ()
    # Of aligned targets the start symbol's position, too, so that there is one for each position.
    step_head = model.position_logits if model.spec.targets == "aligned" else head
    step_logits = tuple(step_head(view.output)[0] for view in shown)
    return Observed(head(states)[0].numpy(), encoder, decoder, step_logits)


def _part(
    stack: Any, details: RecurrenceDetails, views: Sequence[StepView], has_head: bool
) -> PartSteps:
    """The steps of one part.

    Args:
      stack: the part; of a ``MixedStack`` only the recurrence's steps count.
      details: of its call.
      views: what its observer saw.
      has_head: whether the model answers from its states.
    """
    if not views:
        return _unseen(details)
    answers = has_head
    layers = stack.stack if isinstance(stack, MemoryStack) else stack
    if isinstance(layers, MixedStack):
        before, after = (
            0 if part is None else part.cache_count for part in (layers.before, layers.after)
        )
        views = views[before : len(views) - after]
        # The head does not read the recurrence's states where layers follow.
        answers = has_head and not after
    steps, symbols = len(views), details.ponder_times.shape[1]
    memory_size = views[0].state.shape[1] - symbols
    attention, memory_attention = _attention(views, memory_size)
    probabilities = details.halting_probabilities
    states = [[(view.previous_state, view.state) for view in views]]
    has_levels, has_q = (getattr(views[0], name) is not None for name in ("low_state", "q_values"))
    if has_levels:
        states.append([(view.previous_low_state, view.low_state) for view in views])
    changes = [np.stack([_change(*pair) for pair in level]) for level in states]
    is_recurrence = hasattr(getattr(stack, "recurrence", stack), "recurrent_step")
    return PartSteps(
        np.pad(details.ponder_times.numpy()[0], [memory_size, 0], constant_values=steps),
        np.pad(details.remainders.numpy()[0], [memory_size, 0]),
        steps,
        memory_size,
        None if probabilities is None else probabilities.numpy()[:steps, 0],
        changes[0],
        changes[1] if has_levels else None,
        np.array([[_residual(*pair, details.mask) for pair in level] for level in states])
        if is_recurrence
        else None,
        np.stack([tf.sigmoid(view.q_values[0, 0]) for view in views]) if has_q else None,
        attention,
        memory_attention,
        tuple(views),
        answers,
    )


def _unseen(details: RecurrenceDetails) -> PartSteps:
    """The steps of a part that shows none of them: those of its attention weights or, without any,
    as many as its ponder times say.
    """
    times = details.ponder_times.numpy()[0]
    own, memory = (
        None if weights is None else weights.numpy()[:, 0]
        for weights in (details.attention_weights, details.memory_attention_weights)
    )
    shown = own if own is not None else memory
    steps = max(int(times.max(initial=1.0)), 1) if shown is None else len(shown)
    if own is not None and own.shape[2] < own.shape[3]:
        # Only the last position, a question, has read.
        missing = own.shape[3] - own.shape[2]
        own = np.pad(own, [(0, 0), (0, 0), (missing, 0), (0, 0)])
    return PartSteps(
        np.minimum(times, steps),
        details.remainders.numpy()[0],
        steps,
        attention=own,
        memory_attention=memory,
    )


def _change(before: Any, after: Any) -> np.ndarray:
    """‖s_t - s_(t-1)‖ / ‖s_t‖ of each position, float32 [length]."""
    previous, state = (tf.cast(states, tf.float32).numpy()[0] for states in (before, after))
    size = np.linalg.norm(state, axis=-1)
    change: np.ndarray = np.linalg.norm(state - previous, axis=-1) / np.maximum(size, 1e-12)
    return change


def _residual(before: Any, after: Any, mask: Any) -> float:
    """The mean ‖s_t - s_(t-1)‖ / ‖s_(t-1)‖ of counted positions with s_(t-1) not 0; NaN: none."""
    residuals = residuals_of(before, after).numpy()
    seen = residuals[(np.asarray(mask) > 0.0) & np.isfinite(residuals)]
    return float(seen.mean()) if seen.size else np.nan


def _attention(
    views: Sequence[StepView], memory_size: int
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Attention over the part's own positions and the encoder's, [steps, heads, length, keys]."""
    own = _heads([view.attention_weights for view in views])
    memory = _heads([view.memory_attention_weights for view in views])
    if own is None or memory is None or not memory_size or own.shape[2] != memory_size:
        return own, memory
    # The symbols of a bottleneck read the memory alone, and the memory reads all.
    symbols = np.pad(memory, [(0, 0), (0, 0), (0, 0), (0, own.shape[3] - memory_size)])
    return np.concatenate([own, symbols], 2), None


def _heads(weights: Sequence[Any]) -> np.ndarray | None:
    """[steps, heads, queries, keys] of each step's [batch, heads, queries, keys], or [layers,
    batch, ...], with one example.
    """
    if any(step is None for step in weights):
        return None
    arrays = [np.asarray(step, np.float32) for step in weights]
    return np.stack([array.reshape(-1, *array.shape[-2:]) for array in arrays])
