"""The sets to begin with, by problem: the recipes that were made for it."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase

# The first pattern that a problem's name matches counts.
_FIRST_SETS: Mapping[str, tuple[str, ...]] = {
    "algorithmic_addition_*": ("ut_length_generalization_addition",),
    "algorithmic_reverse_*": ("ut_algorithmic_reverse", "ut_length_generalization"),
    "algorithmic_*": ("ut_algorithmic", "ut_act_algorithmic", "ut_length_generalization"),
    "babi_sim": ("ut_act_babi", "ut_demo"),
    "babi_qa_1k": ("ut_babi_joint_1k",),
    "babi_qa_concat_all_tasks_1k": ("ut_babi_joint_1k",),
    "babi_qa": ("ut_babi_joint",),
    "babi_*all_tasks*": ("ut_babi_joint",),
    "babi_*task16*": ("ut_babi_induction",),
    "babi_*task17*": ("ut_babi_unordered",),
    "babi_*task18*": ("ut_babi_unordered",),
    "babi_*task19*": ("ut_babi_unordered",),
    "babi_*_1k": ("ut_babi_1k", "ut_babi"),
    "babi_*": ("ut_babi", "ut_act_babi"),
    "lte_copy": ("ut_lte_memory",),
    "lte_double": ("ut_lte_double",),
    "lte_reverse": ("ut_lte_reverse",),
    "lte_control": ("ut_lte", "ut_lte_digits", "ut_act_lte"),
    "lte_program": ("ut_lte", "ut_lte_digits", "ut_act_lte"),
    "lte_*": ("ut_lte", "ut_act_lte"),
    "sudoku_*": ("ut_sudoku4", "ut_act_sudoku4"),
    "prefix_sums_*": ("ut_prefix_sums",),
    "sva_*": ("ut_agreement", "ut_act_agreement"),
    "lambada_lm*": ("ut_lambada", "ut_act_lambada"),
    "lambada_rc*": ("ut_lambada_rc", "ut_act_lambada_rc"),
    "parse_ptb": ("ut_parsing",),
    "parsing_english_*": ("ut_parsing_leaves",),
    "wsj_parsing": ("ut_parsing_leaves",),
    "classify_files": ("ut_classify", "ut_act_classify"),
    "lm_files": ("ut_lm", "ut_act_lm"),
    "translate_*_wmt*": ("ut_wmt14", "transformer_base"),
    "translate_*_multi30k": ("ut_translate_small", "ut_multi30k"),
    "translate_*": ("ut_translate_small", "transformer_translate_small"),
}


def first_sets(problem: str) -> tuple[str, ...]:
    """The names of the sets for one of ut-tf's problems; none where there is no recipe for it."""
    return next((sets for name, sets in _FIRST_SETS.items() if fnmatchcase(problem, name)), ())
