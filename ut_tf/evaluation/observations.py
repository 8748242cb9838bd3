"""What a checkpoint answers and how long it ponders, example by example: the data of figures.

::

    observed = observe_checkpoint(run, problem, checkpoint="120")
    observed[""].ponder_counts["encoder"]  # positions per ponder time 0, 1, ..., int64 [times]
    observed[""].confusion["hall", "kitchen"]  # examples of the class hall answered kitchen

Targets are given to the model, so that decoders ponder over what is right.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf

from ut_tf.data.pipeline import eval_batches
from ut_tf.data.problem import EvaluationSet, Problem
from ut_tf.errors import UserError
from ut_tf.evaluation.evaluator import chosen_sets
from ut_tf.evaluation.methods.batches import any_lengths
from ut_tf.metrics.intervals import Floats
from ut_tf.run import Run
from ut_tf.run_weights import LoadedCheckpoint, load_checkpoint

# Attention weights of 400 symbols leave these in a few hundred megabytes.
_BATCH_TOKENS = 8192


@dataclass
class Observed:
    """What was seen on one evaluation set.

    Args:
      ponder_counts: "encoder" and "decoder" -> number of counted positions per ponder time, float64
        [times]; only parts that halt dynamically.
      confusion: (class, answer) -> examples; empty where targets are no classes.
    """

    ponder_counts: dict[str, Floats] = field(default_factory=dict)
    confusion: Counter[tuple[str, str]] = field(default_factory=Counter)


def observe_checkpoint(
    run: Run,
    problem: Problem,
    checkpoint: str | LoadedCheckpoint = "best",
    lengths: Iterable[int] = (),
    split: str | None = None,
) -> dict[str, Observed]:
    """What a run's checkpoint does on its problem's evaluation sets, by name of the set; arguments
    and errors as of ``measure_checkpoint``.
    """
    sets = chosen_sets(run, problem, tuple(lengths), split)
    model = load_checkpoint(run, checkpoint).model
    names = _class_names(run) if model.spec.targets == "class" else []
    return {part.name: _observe(model, problem, run, part, names) for part in sets}


def _observe(
    model: Any, problem: Problem, run: Run, evaluation_set: EvaluationSet, names: Sequence[str]
) -> Observed:
    batches = eval_batches(problem, evaluation_set, run.data_dir, batch_tokens=_BATCH_TOKENS)

    def look(features: dict[str, Any]) -> dict[str, Any]:
        logits, details = model(features, training=False, return_details=True)
        seen = _ponder_counts(details, features["weight"])
        return {**seen, "answers": tf.argmax(logits, -1)} if names else seen

    look = tf.function(look, input_signature=[any_lengths(batches.element_spec)], autograph=False)
    observed = Observed()
    for batch in batches:
        seen = {name: value.numpy() for name, value in look(batch).items()}
        answers = seen.pop("answers", None)
        if answers is not None:
            real = batch["weight"].numpy() > 0
            pairs = zip(batch["targets"].numpy()[real], answers[real], strict=True)
            observed.confusion.update((names[target], names[answer]) for target, answer in pairs)
        for part, counts in seen.items():
            observed.ponder_counts[part] = _added(observed.ponder_counts.get(part), counts)
    return observed


def _ponder_counts(details: Any, weight: Any) -> dict[str, Any]:
    """Counted positions per ponder time, int32 [times], of each part that halts."""
    counts = {}
    for name in ("encoder", "decoder"):
        part = getattr(details, name)
        if part is not None and part.halting_probabilities is not None:
            mask = part.mask * weight[:, tf.newaxis]
            times = tf.cast(tf.round(part.ponder_times), tf.int32)
            counts[name] = tf.math.bincount(tf.boolean_mask(times, mask > 0.0))
    return counts


def _added(total: Floats | None, counts: Any) -> Floats:
    """The sum of two histograms, as long as the longer one."""
    total = np.zeros(0) if total is None else total
    summed = np.zeros(max(len(total), len(counts)))
    summed[: len(total)] += total
    summed[: len(counts)] += counts
    return summed


def _class_names(run: Run) -> list[str]:
    """The text of each class, or its number where the problem has no text form."""
    assert run.spec is not None
    numbers = np.arange(run.spec.target_vocab_size)
    try:
        codec = run.text_codec()
    except UserError:
        return [str(number) for number in numbers]
    return [text.decode() for text in codec.decode(tf.constant(numbers, tf.int32)).numpy()]
