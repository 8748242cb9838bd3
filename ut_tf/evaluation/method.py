"""Evaluation methods: classes that measure a set of examples.

Example, in user code (see ``methods.batches`` for the classes to derive from)::

    @registry.register_evaluation_method("top_two")  # EvaluationSet(..., method="top_two")
    class TopTwo(PredictionMethod):
        metrics = {"top_two": Metric(("hits", "examples"), ratio, share=True)}
        headline = "top_two"

        def per_example(self, logits, features):
            return {"hits": tf.cast(tf.math.in_top_k(features["targets"], logits, 2), tf.float32)}
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from ut_tf.data.problem import EvaluationSet, Problem
from ut_tf.evaluation.measurement import Measurement


@dataclass(frozen=True)
class EvaluationContext:
    """The model that is judged, and the data that it is judged on.

    Args:
      model: a keras.Model as the registry of models makes them.
      problem: whose data is read; prepared.
      data_dir: where the problem prepared its data.
      label_smoothing: of the loss; 0 for a loss that can be compared between runs.
      batch_tokens: tokens in a batch, padding included; None: as many as each method takes.
      vocab_dir: a run's copy of the problem's vocabulary files; None: those of `data_dir`.
      refill: slots of batches that refill (``inference.refill``); 0: batches are whole.
      with_rouge: whether texts that the model writes are also judged by ROUGE.
    """

    model: Any
    problem: Problem
    data_dir: Path
    label_smoothing: float = 0.0
    batch_tokens: int | None = None
    vocab_dir: Path | None = None
    refill: int = 0
    with_rouge: bool = False


class EvaluationMethod(ABC):
    """One way to judge a model; made once and used for many sets, so that it keeps its graphs.

    Args:
      context: what is judged, and on what.
    """

    headline: ClassVar[str] = ""
    """The metric that says most; reports show it first."""

    def __init__(self, context: EvaluationContext) -> None:
        self.context = context

    @property
    def metric_names(self) -> tuple[str, ...] | None:
        """The metrics that ``measure`` may give, without those of groups; None: it alone knows."""
        return None

    def check(self, evaluation_set: EvaluationSet) -> None:
        """Checks, before anything is measured, that the set can be; default: nothing is checked.

        Raises:
          UserError: the problem lacks something that the method needs.
        """
        del evaluation_set

    @abstractmethod
    def measure(self, evaluation_set: EvaluationSet, with_intervals: bool) -> Measurement:
        """Measures one set; the names of its metrics have no prefix.

        Args:
          evaluation_set: the set.
          with_intervals: whether intervals and standard deviations are computed: training does not
            wait for them.
        """
