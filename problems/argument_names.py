"""The names of the built-in problems' arguments, by class; imports none of them.

A misspelt argument is refused with these at once, before TensorFlow is loaded; the classes refuse
what they cannot be called with themselves. A test compares the two.
"""

from __future__ import annotations

_SIDES = ("source_files", "target_files")
_FILES = tuple(f"{part}{side}" for part in ("", "dev_", "test_") for side in _SIDES)
_SUBWORDS = ("vocab_size", "subword_model", "vocab_file")
_TRANSLATION = (
    *_SUBWORDS,
    "max_characters",
    "max_length_ratio",
    "subword_dropout",
    "reverse",
    "processes",
    "beam_pipeline_options",
)
_LAMBADA = (
    "control",
    "train_files",
    "tokenize",
    "vocab_size",
    "min_books",
    "unknown_words",
    "evaluate_on",
)

ARGUMENT_NAMES: dict[str, tuple[str, ...]] = {
    "ut_tf.problems.algorithmic.problem:Algorithmic": (
        "operation",
        "base",
        "max_length",
        "train_examples",
        "validation_length",
        "validation_examples",
        "test_examples",
        "long_test_examples",
        "disjoint_splits",
    ),
    "ut_tf.problems.babi.problem:BabiQA": (
        "tasks",
        "size",
        "form",
        "max_facts",
        "simulated_tasks",
        "simulated_questions",
        "exchange_words",
        "exclude_official",
        "disjoint_splits",
    ),
    "ut_tf.problems.babi.simulator.supporting_facts:SimulatedBabi": (
        "supporting_facts",
        "story_length",
        "questions_per_story",
        "train_questions",
        "test_questions",
        "seed",
        "disjoint_splits",
    ),
    "ut_tf.problems.babi.simulator.tasks:SimulatedTasks": (
        "tasks",
        "train_questions",
        "test_questions",
        "story_length",
        "distractors",
        "questions_per_story",
        "seed",
        "form",
        "max_facts",
        "disjoint_splits",
    ),
    "ut_tf.problems.lte.problem:LearningToExecute": (
        "task",
        "form",
        "length",
        "nesting",
        "operations",
        "train_operations",
        "little_endian",
        "target_share",
        "train_examples",
        "validation_examples",
        "test_examples",
    ),
    "ut_tf.problems.reasoning.sudoku:Sudoku": (
        "digits",
        "min_blanks",
        "max_blanks",
        "train_puzzles",
        "validation_puzzles",
        "test_puzzles",
        "seed",
    ),
    "ut_tf.problems.reasoning.prefix_sums:PrefixSums": (
        "max_length",
        "train_examples",
        "validation_length",
        "validation_examples",
        "test_examples",
        "disjoint_splits",
    ),
    "ut_tf.problems.agreement.problem:SvaLanguageModeling": ("source", "disjoint_splits"),
    "ut_tf.problems.agreement.problem:SvaNumberPrediction": ("source", "disjoint_splits"),
    "ut_tf.problems.lambada.language_model:LambadaLM": (*_LAMBADA, "window"),
    "ut_tf.problems.lambada.reading:LambadaRC": (
        *_LAMBADA,
        "passages",
        "longest",
        "folds",
        "fold",
        "disjoint_splits",
    ),
    "ut_tf.problems.parsing.problem:Parsing": (
        "train_trees",
        "dev_trees",
        "test_trees",
        "vocab_words",
        "leaves",
        "disjoint_splits",
    ),
    "ut_tf.problems.own_files.classify:ClassifyFiles": (
        *_FILES,
        *_SUBWORDS,
        "max_subwords",
        "fit_vocabulary",
        "disjoint_splits",
    ),
    "ut_tf.problems.own_files.language_model:LmFiles": (
        *(f"{part}source_files" for part in ("", "dev_", "test_")),
        *_SUBWORDS,
        "window",
        "keep_blanks",
        "fit_vocabulary",
        "disjoint_splits",
    ),
    "ut_tf.problems.translation.own_files:TranslateFiles": (
        *_FILES,
        *_TRANSLATION,
        "fit_vocabulary",
        "disjoint_splits",
    ),
    "ut_tf.problems.translation.wmt14:TranslateWmt14": (
        "language",
        "default_vocab_size",
        *_TRANSLATION,
    ),
    "ut_tf.problems.translation.multi30k:TranslateMulti30k": ("language", *_TRANSLATION),
}
