"""The method that judges sequences which the model writes itself."""

from collections.abc import Mapping
from typing import Any, ClassVar

import tensorflow as tf

from ut_tf.evaluation.methods.batches import BatchMethod
from ut_tf.metrics import per_example
from ut_tf.metrics.sums import Metric, ratio
from ut_tf.models.features import checked_features
from ut_tf.search.strategies import greedy_decode


class Greedy(BatchMethod):
    """Sequences written greedily: char_acc (share of the targets' symbols, the end included) and
    seq_acc (share of the sequences whose every symbol is right).

    Positions beyond the target's end do not count.
    """

    metrics: ClassVar[Mapping[str, Metric]] = {
        "char_acc": Metric(("correct", "positions"), ratio, grouped=True),
        "seq_acc": Metric(("all_correct", "examples"), ratio, share=True, grouped=True),
    }
    headline = "seq_acc"
    batch_tokens = 32768

    def judge(self, features: dict[str, Any]) -> dict[str, Any]:
        # A search reads ids without a call of the model, which would check them.
        spec = getattr(self.context.model, "spec", None)
        features = features if spec is None else checked_features(features, spec)
        targets = features["targets"]
        # Symbols beyond the targets are not judged, so none are written.
        symbols = greedy_decode(self.context.model, features, max_length=tf.shape(targets)[1])
        return per_example.sequence_matches(symbols, targets)
