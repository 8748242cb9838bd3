"""The supervisions by name."""

from __future__ import annotations

from ut_tf.registry import Entry

SUPERVISIONS = {
    "final": Entry("ut_tf.training.objective:final", "the answer after the last step"),
}
