"""Evaluation methods by name; ``EvaluationSet.method`` chooses one. User code adds its own with
``registry.register_evaluation_method``.
"""

from ut_tf.registry import Entry

_PREDICTIONS = "ut_tf.evaluation.methods.predictions"

METHODS = {
    "classify": Entry(f"{_PREDICTIONS}:Classify", "The most probable class."),
    "teacher_forced": Entry(
        f"{_PREDICTIONS}:TeacherForced", "Each symbol, given the right ones before it."
    ),
    "language_model": Entry(
        f"{_PREDICTIONS}:LanguageModel",
        "Each symbol of a text, given those before it: its perplexity.",
    ),
    "aligned": Entry(
        f"{_PREDICTIONS}:Aligned", "The symbol at each position of the inputs, all at once."
    ),
    "aligned_valid": Entry(
        f"{_PREDICTIONS}:AlignedValid",
        "The same, and whether the answers obey the rules of the problem.",
    ),
    "last_word": Entry(
        f"{_PREDICTIONS}:LastWord", "Perplexity, and each example's last symbol by itself."
    ),
    "ranking": Entry(
        f"{_PREDICTIONS}:Ranking",
        "Whether the last symbol is more probable than the feature alternative.",
    ),
    "greedy": Entry("ut_tf.evaluation.methods.written:Greedy", "Sequences written greedily."),
    "translate": Entry(
        "ut_tf.evaluation.methods.translate:Translate", "Texts, by BLEU or the problem's metrics."
    ),
}
