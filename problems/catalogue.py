"""The names of all problems. Nothing is imported until a name is looked up.

Of each class the table below holds the names of its arguments, so that a misspelt one is refused
before TensorFlow is loaded, and those that name files (``Problem.file_arguments``). A test compares
both with the class.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ut_tf.registry import Entry

_BASES = {"binary": 2, "decimal": 10}
# tensor2tensor calls copying "identity".
_OPERATIONS = {"copy": "copy", "identity": "copy", "reverse": "reverse", "addition": "addition"}
_ALL_TASKS = tuple(range(1, 21))

GROUPS = {
    "algorithmic": "copy, reverse and addition of digits, trained on lengths 1 to 40",
    "babi": "bAbI, questions about short stories: all twenty tasks jointly or one alone, with 1,000"
    " or 10,000 training questions a task, as facts or (concat) as one sequence",
    "babi_sim": "bAbI's tasks with simulated stories; needs no download",
    "lte": "learning to execute: programs to be executed, digit strings to be memorized",
    "reasoning": "puzzles with an answer at every position: Sudoku, prefix sums; generated",
    "agreement": "agreement of subject and verb",
    "lambada": "LAMBADA, the last word of a passage: as a language model (lm) or chosen from the"
    " context (rc)",
    "parsing": "constituency parsing: linearized trees of a treebank or of your own files",
    "own_files": "your own files: texts with classes, plain text for a language model",
    "translation": "translation: your own files, Multi30k, WMT14",
}


class _Class(NamedTuple):
    """A class of problems.

    Fields:
      target: its module in ut_tf.problems and its name.
      group: one of ``GROUPS``.
      arguments: their names, with blanks between.
      files: the arguments that name files.
    """

    target: str
    group: str
    arguments: str
    files: Mapping[str, str] = {}

    def entry(self, name: str, description: str, arguments: Mapping[str, Any]) -> Entry:
        """The entry of a problem of this class."""
        return Entry(
            f"ut_tf.problems.{self.target}",
            description,
            {**arguments, "name": name},
            group=self.group,
            file_arguments=self.files,
            argument_names=tuple(self.arguments.split()),
        )


_TRAINED = "source_files target_files"
_JUDGED = "dev_source_files dev_target_files test_source_files test_target_files"
_SUBWORDS = "vocab_size subword_model vocab_file"
_TRANSLATION = (
    f"{_SUBWORDS} max_characters max_length_ratio subword_dropout reverse processes"
    " beam_pipeline_options"
)
_LAMBADA = "control train_files tokenize vocab_size min_books unknown_words evaluate_on"
_TREES = "train_trees dev_trees test_trees"
_TEXT_FILES = "source_files dev_source_files test_source_files"
_PAIR_FILES = dict.fromkeys(f"{_TRAINED} {_JUDGED}".split(), "files")
_VOCABULARY = {"vocab_file": "file"}

_ALGORITHMIC = _Class(
    "algorithmic.problem:Algorithmic",
    "algorithmic",
    "operation base max_length train_examples validation_length validation_examples test_examples"
    " long_test_examples disjoint_splits",
)
_BABI = _Class(
    "babi.problem:BabiQA",
    "babi",
    "tasks size form max_facts simulated_tasks simulated_questions exchange_words exclude_official"
    " disjoint_splits",
)
_OWN_WORLD = _Class(
    "babi.simulator.supporting_facts:SimulatedBabi",
    "babi_sim",
    "supporting_facts story_length questions_per_story train_questions test_questions seed"
    " disjoint_splits",
)
_SIMULATED = _Class(
    "babi.simulator.tasks:SimulatedTasks",
    "babi_sim",
    "tasks train_questions test_questions story_length distractors questions_per_story seed form"
    " max_facts disjoint_splits",
)
_LTE = _Class(
    "lte.problem:LearningToExecute",
    "lte",
    "task form length nesting operations train_operations little_endian target_share train_examples"
    " validation_examples test_examples",
)
_SUDOKU = _Class(
    "reasoning.sudoku:Sudoku",
    "reasoning",
    "digits min_blanks max_blanks train_puzzles validation_puzzles test_puzzles seed",
)
_PREFIX_SUMS = _Class(
    "reasoning.prefix_sums:PrefixSums",
    "reasoning",
    "max_length train_examples validation_length validation_examples test_examples disjoint_splits",
)
_NEXT_WORD = _Class("agreement.problem:SvaLanguageModeling", "agreement", "source disjoint_splits")
_NUMBER = _Class("agreement.problem:SvaNumberPrediction", "agreement", "source disjoint_splits")
_LAMBADA_LM = _Class("lambada.language_model:LambadaLM", "lambada", f"{_LAMBADA} window")
_LAMBADA_RC = _Class(
    "lambada.reading:LambadaRC",
    "lambada",
    f"{_LAMBADA} passages longest folds fold disjoint_splits",
)
_PARSING = _Class(
    "parsing.problem:Parsing",
    "parsing",
    f"{_TREES} vocab_words leaves disjoint_splits",
    dict.fromkeys(_TREES.split(), "files"),
)
_CLASSIFY_FILES = _Class(
    "own_files.classify:ClassifyFiles",
    "own_files",
    f"{_TRAINED} {_JUDGED} {_SUBWORDS} max_subwords fit_vocabulary disjoint_splits",
    _VOCABULARY | _PAIR_FILES,
)
_LM_FILES = _Class(
    "own_files.language_model:LmFiles",
    "own_files",
    f"{_TEXT_FILES} {_SUBWORDS} window keep_blanks fit_vocabulary disjoint_splits",
    _VOCABULARY | dict.fromkeys(_TEXT_FILES.split(), "files"),
)
_TRANSLATE_FILES = _Class(
    "translation.own_files:TranslateFiles",
    "translation",
    f"{_TRAINED} {_JUDGED} {_TRANSLATION} fit_vocabulary disjoint_splits",
    _VOCABULARY | _PAIR_FILES,
)
_WMT = _Class(
    "translation.wmt14:TranslateWmt14",
    "translation",
    f"language default_vocab_size {_TRANSLATION}",
    _VOCABULARY,
)
_MULTI30K = _Class(
    "translation.multi30k:TranslateMulti30k", "translation", f"language {_TRANSLATION}", _VOCABULARY
)

_Rows = dict[str, tuple[_Class, str, dict[str, Any]]]
"""By name: class, description, arguments."""


def _algorithmic() -> _Rows:
    return {
        f"algorithmic_{name}_{digits}40": (
            _ALGORITHMIC,
            f"{operation} of {digits} digits, trained on lengths 1..40"
            + (" (tensor2tensor's name)" if name != operation else ""),
            {"operation": operation, "base": base},
        )
        for name, operation in _OPERATIONS.items()
        for digits, base in _BASES.items()
    }


def _babi() -> _Rows:
    jointly = "bAbI, all twenty tasks jointly, {} training questions each"
    rows: _Rows = {
        "babi_qa": (_BABI, jointly.format("10,000"), {"size": "10k"}),
        "babi_qa_1k": (_BABI, jointly.format("1,000"), {"size": "1k"}),
    }
    for size in ("1k", "10k"):
        tokens = {"size": size, "form": "tokens"}
        as_one = f"{size}, as one sequence"
        rows[f"babi_qa_concat_all_tasks_{size}"] = (
            _BABI,
            f"bAbI, all tasks jointly, {as_one}",
            tokens,
        )
        for task in _ALL_TASKS:
            alone, tasks = f"bAbI, task {task} alone", {"tasks": (task,)}
            rows |= {
                f"babi_qa_task{task}_{size}": (_BABI, f"{alone}, {size}", {"size": size, **tasks}),
                f"babi_qa_concat_task{task}_{size}": (
                    _BABI,
                    f"{alone}, {as_one}",
                    {**tasks, **tokens},
                ),
            }
    return rows


def _simulated() -> _Rows:
    own_world = "simulated stories in bAbI's format with 1 to 3 supporting facts; needs no download"
    told = "simulated; needs no download"
    return {
        "babi_sim": (_OWN_WORLD, own_world, {}),
        "babi_sim_all_tasks": (_SIMULATED, f"bAbI, all twenty tasks jointly, {told}", {}),
        **{
            f"babi_sim_task{task}": (
                _SIMULATED,
                f"bAbI, task {task} alone, {told}",
                {"tasks": (task,)},
            )
            for task in _ALL_TASKS
        },
    }


def _learning_to_execute() -> _Rows:
    computes = {
        "program": "arithmetic, conditions and loops",
        "control": "conditions and loops",
        "addition": "sums",
    }
    memorises = {"copy": "copied", "double": "written twice", "reverse": "reversed"}
    programs = "learning to execute: programs of"
    strings = "learning to execute: strings of up to 55 digits, to be"
    python = "learning to execute: Python programs with variables and print, of"
    return {
        **{
            f"lte_{task}": (_LTE, f"{programs} {what}", {"task": task})
            for task, what in computes.items()
        },
        **{
            f"lte_{task}": (_LTE, f"{strings} {what}", {"task": task})
            for task, what in memorises.items()
        },
        **{
            f"lte_zaremba_{task}": (_LTE, f"{python} {what}", {"task": task, "form": "statements"})
            for task, what in computes.items()
        },
    }


def _lambada() -> _Rows:
    forms = {
        "lm": (_LAMBADA_LM, "a language model's last words"),
        "rc": (_LAMBADA_RC, "the last word chosen among those of the context"),
    }
    return {
        f"lambada_{form}{'_control' if control else ''}": (
            of,
            f"LAMBADA: {what}" + (", evaluated on the control passages" if control else ""),
            {"control": control},
        )
        for form, (of, what) in forms.items()
        for control in (False, True)
    }


def _parsing() -> _Rows:
    named = {"wsj_parsing": 0, "parsing_english_ptb8k": 8192, "parsing_english_ptb16k": 16384}
    own = "linearised trees of a treebank, or of your own files (train_trees=...)"
    return {
        "parse_ptb": (_PARSING, f"constituency parsing: {own}", {}),
        **{
            name: (
                _PARSING,
                "constituency parsing"
                + (f", at most {words:,} words" if words else "")
                + " (tensor2tensor's name)",
                {"vocab_words": words, "leaves": "XX"},
            )
            for name, words in named.items()
        },
    }


def _translation() -> _Rows:
    rows: _Rows = {
        "translate_files": (
            _TRANSLATE_FILES,
            "translation learnt from your own files (--source_files, --target_files)",
            {},
        ),
        "translate_files_rev": (
            _TRANSLATE_FILES,
            "the same from target to source",
            {"reverse": True},
        ),
    }
    for code, language, size in (("de", "German", 37_000), ("fr", "French", 32_000)):
        for source, target, reverse in (("en", code, False), (code, "en", True)):
            what = f"{language} to English" if reverse else f"English to {language}"
            shared = {"language": code, "reverse": reverse}
            rows[f"translate_{source}{target}_wmt14"] = (
                _WMT,
                f"WMT14, {what}, {size:,} subwords",
                {"default_vocab_size": size, **shared},
            )
            rows[f"translate_{source}{target}_multi30k"] = (
                _MULTI30K,
                f"Multi30k, {what}, 8,000 subwords or the set's vocab_size",
                shared,
            )
            for name, words in (("32k", 32_000), ("8k", 8_000)):
                rows[f"translate_en{code}_wmt{name}{'_rev' if reverse else ''}"] = (
                    _WMT,
                    f"WMT14, {what}, {words:,} subwords (tensor2tensor's name)",
                    {"default_vocab_size": words, **shared},
                )
    return rows


_ROWS: _Rows = {
    **_algorithmic(),
    **_babi(),
    **_simulated(),
    **_learning_to_execute(),
    **{
        f"sudoku_{digits}x{digits}": (
            _SUDOKU,
            f"Sudoku with {digits} digits, by number of blank cells; needs no download",
            {"digits": digits},
        )
        for digits in (4, 6)
    },
    "prefix_sums_32": (
        _PREFIX_SUMS,
        "prefix sums of bits modulo 2, trained on lengths 1..32",
        {"max_length": 32},
    ),
    "sva_language_modeling": (
        _NEXT_WORD,
        "agreement of subject and verb: next word, the right form of the verb against the"
        " wrong one",
        {},
    ),
    "sva_number_prediction": (
        _NUMBER,
        "agreement of subject and verb: singular or plural, from the words before the verb",
        {},
    ),
    **_lambada(),
    **_parsing(),
    "classify_files": (
        _CLASSIFY_FILES,
        "classes of texts, learnt from your own files (--source_files)",
        {},
    ),
    "lm_files": (_LM_FILES, "a language model of your own text (--source_files)", {}),
    **_translation(),
}
PROBLEMS: dict[str, Entry] = {
    name: of.entry(name, description, arguments)
    for name, (of, description, arguments) in _ROWS.items()
}
