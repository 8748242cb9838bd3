"""Methods that judge what the model predicts, given the right symbols before."""

from collections.abc import Mapping
from typing import Any, ClassVar

import tensorflow as tf

from ut_tf.data.problem import EvaluationSet
from ut_tf.errors import UserError
from ut_tf.evaluation.methods.batches import PredictionMethod
from ut_tf.metrics import per_example
from ut_tf.metrics.sums import Metric, percent_wrong, perplexity, ratio

_LOSS = Metric(("loss", "positions"), ratio)
_ACCURACY = Metric(("correct", "positions"), ratio, grouped=True)


class Classify(PredictionMethod):
    """The most probable class: loss (nats), error (percent)."""

    metrics: ClassVar[Mapping[str, Metric]] = {
        "loss": Metric(("loss", "examples"), ratio),
        "error": Metric(("correct", "examples"), percent_wrong, share=True, grouped=True),
    }
    headline = "error"

    def per_example(self, logits: Any, features: Mapping[str, Any]) -> dict[str, Any]:
        return per_example.classification(logits, features["targets"], self.context.label_smoothing)


class TeacherForced(PredictionMethod):
    """Each symbol, given the right ones before it: loss (nats per symbol), accuracy (share of the
    symbols), seq_accuracy (share of the sequences whose every symbol is right).
    """

    metrics: ClassVar[Mapping[str, Metric]] = {
        "loss": _LOSS,
        "accuracy": _ACCURACY,
        "seq_accuracy": Metric(("all_correct", "examples"), ratio, share=True),
    }
    headline = "accuracy"

    def per_example(self, logits: Any, features: Mapping[str, Any]) -> dict[str, Any]:
        return per_example.teacher_forced(logits, features["targets"], self.context.label_smoothing)


class Aligned(TeacherForced):
    """The symbol at each position of the inputs: loss (nats per symbol), accuracy (share of the
    symbols), seq_accuracy (share of the examples whose every symbol is right).
    """

    metrics: ClassVar[Mapping[str, Metric]] = {
        "loss": _LOSS,
        "accuracy": _ACCURACY,
        "seq_accuracy": Metric(("all_correct", "examples"), ratio, share=True, grouped=True),
    }
    headline = "seq_accuracy"


class AlignedValid(Aligned):
    """As ``Aligned``, and valid (share of the examples whose answers solve them by the rules of the
    problem).
    """

    metrics: ClassVar[Mapping[str, Metric]] = {
        **Aligned.metrics,
        "valid": Metric(("valid", "examples"), ratio, share=True, grouped=True),
    }
    headline = "valid"

    def check(self, evaluation_set: EvaluationSet) -> None:
        problem = self.context.problem
        if problem.solves is None:
            raise UserError(
                f"problem {problem.name} has no rules by which answers are checked: judge it by"
                " the method aligned."
            )
        super().check(evaluation_set)

    def per_example(self, logits: Any, features: Mapping[str, Any]) -> dict[str, Any]:
        assert self.context.problem.solves is not None
        answers = tf.argmax(logits, -1, output_type=features["targets"].dtype)
        valid = tf.cast(self.context.problem.solves(features, answers), tf.float32)
        return {**super().per_example(logits, features), "valid": valid}


class LanguageModel(TeacherForced):
    """Each symbol, given those before it: loss (nats per symbol), perplexity, accuracy (share of
    the symbols).
    """

    metrics: ClassVar[Mapping[str, Metric]] = {
        "loss": _LOSS,
        "perplexity": Metric(("loss", "positions"), perplexity),
        "accuracy": _ACCURACY,
    }
    headline = "perplexity"
    # Of a whole vocabulary there are logits of each symbol.
    batch_tokens = 2048


class LastWord(PredictionMethod):
    """Loss, perplexity and accuracy of all symbols; target/loss, target/perplexity and
    target/accuracy of each example's last symbol; target/context_loss and target/context_accuracy
    of the last symbols that stand before in their examples, where any does.
    """

    metrics: ClassVar[Mapping[str, Metric]] = {
        "loss": _LOSS,
        "accuracy": _ACCURACY,
        "perplexity": Metric(("loss", "positions"), perplexity),
        "target/loss": Metric(("target_loss", "examples"), ratio),
        "target/perplexity": Metric(("target_loss", "examples"), perplexity),
        "target/accuracy": Metric(("target_correct", "examples"), ratio, share=True, grouped=True),
        "target/context_loss": Metric(("context_loss", "in_context"), ratio, where_any=True),
        "target/context_accuracy": Metric(
            ("context_correct", "in_context"), ratio, share=True, where_any=True
        ),
    }
    headline = "target/perplexity"
    # Language models have a whole vocabulary of words as logits of each symbol.
    batch_tokens = 2048

    def per_example(self, logits: Any, features: Mapping[str, Any]) -> dict[str, Any]:
        return per_example.last_word(logits, features["targets"], self.context.label_smoothing)


class Ranking(PredictionMethod):
    """accuracy: share of the examples whose last symbol is more probable than the feature
    "alternative" (equally probable is wrong); loss (nats per symbol, of all symbols).
    """

    metrics: ClassVar[Mapping[str, Metric]] = {
        "loss": _LOSS,
        "accuracy": Metric(("outranks", "examples"), ratio, share=True, grouped=True),
    }
    headline = "accuracy"
    batch_tokens = LastWord.batch_tokens
    features = ("alternative",)

    def per_example(self, logits: Any, features: Mapping[str, Any]) -> dict[str, Any]:
        return per_example.ranking(
            logits, features["targets"], features["alternative"], self.context.label_smoothing
        )
