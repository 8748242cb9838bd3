"""The supervisions by name."""

from ut_tf.registry import Entry

_STEPS = "ut_tf.training.step_supervision"

SUPERVISIONS = {
    "final": Entry("ut_tf.training.objective:final", "the answer after the last step"),
    "each": Entry(f"{_STEPS}:each", "the answer after every step, in the mean"),
    "progressive": Entry(
        f"{_STEPS}:progressive", "the final answer, and one after a drawn part of the steps"
    ),
    "deep": Entry(
        "ut_tf.training.deep_supervision:deep",
        "the answer of each of several updates that an example stays for",
    ),
}
