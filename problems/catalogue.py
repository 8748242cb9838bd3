"""The names of all problems. Nothing is imported until a name is looked up."""

from __future__ import annotations

from typing import Any

from ut_tf.problems.argument_names import ARGUMENT_NAMES
from ut_tf.registry import Entry

_ALGORITHMIC = "ut_tf.problems.algorithmic.problem:Algorithmic"
_BABI = "ut_tf.problems.babi.problem:BabiQA"
_SIMULATED = "ut_tf.problems.babi.simulator.supporting_facts:SimulatedBabi"
_SIMULATED_TASKS = "ut_tf.problems.babi.simulator.tasks:SimulatedTasks"
_CLASSIFY_FILES = "ut_tf.problems.own_files.classify:ClassifyFiles"
_FILES = "ut_tf.problems.translation.own_files:TranslateFiles"
_LAMBADA = {
    "lm": "ut_tf.problems.lambada.language_model:LambadaLM",
    "rc": "ut_tf.problems.lambada.reading:LambadaRC",
}
_LM_FILES = "ut_tf.problems.own_files.language_model:LmFiles"
_LTE = "ut_tf.problems.lte.problem:LearningToExecute"
_MULTI30K = "ut_tf.problems.translation.multi30k:TranslateMulti30k"
_WMT = "ut_tf.problems.translation.wmt14:TranslateWmt14"
_NEXT_WORD = "ut_tf.problems.agreement.problem:SvaLanguageModeling"
_NUMBER = "ut_tf.problems.agreement.problem:SvaNumberPrediction"
_PARSING = "ut_tf.problems.parsing.problem:Parsing"
_PREFIX_SUMS = "ut_tf.problems.reasoning.prefix_sums:PrefixSums"
_SUDOKU = "ut_tf.problems.reasoning.sudoku:Sudoku"
_BASES = {"binary": 2, "decimal": 10}
# tensor2tensor calls copying "identity".
_OPERATIONS = {"copy": "copy", "identity": "copy", "reverse": "reverse", "addition": "addition"}
_ALL_TASKS = tuple(range(1, 21))
# ``Problem.file_arguments`` of the classes, for who must know them without importing the classes.
_SIDES = [f"{part}{side}" for part in ("", "dev_", "test_") for side in ("source", "target")]
_FILE_ARGUMENTS = {
    _FILES: {"vocab_file": "file", **dict.fromkeys((f"{side}_files" for side in _SIDES), "files")},
    _CLASSIFY_FILES: {
        "vocab_file": "file",
        **dict.fromkeys((f"{side}_files" for side in _SIDES), "files"),
    },
    _LM_FILES: {
        "vocab_file": "file",
        **dict.fromkeys((f"{part}source_files" for part in ("", "dev_", "test_")), "files"),
    },
    _MULTI30K: {"vocab_file": "file"},
    _WMT: {"vocab_file": "file"},
    _PARSING: dict.fromkeys(("train_trees", "dev_trees", "test_trees"), "files"),
}
_GROUPS = {
    _ALGORITHMIC: "algorithmic",
    _BABI: "babi",
    _SIMULATED: "babi_sim",
    _SIMULATED_TASKS: "babi_sim",
    _LTE: "lte",
    _PREFIX_SUMS: "reasoning",
    _SUDOKU: "reasoning",
    _NEXT_WORD: "agreement",
    _NUMBER: "agreement",
    **dict.fromkeys(_LAMBADA.values(), "lambada"),
    _PARSING: "parsing",
    _CLASSIFY_FILES: "own_files",
    _LM_FILES: "own_files",
    _FILES: "translation",
    _MULTI30K: "translation",
    _WMT: "translation",
}

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


def _entry(target: str, name: str, description: str, **arguments: Any) -> tuple[str, Entry]:
    entry = Entry(
        target,
        description,
        {**arguments, "name": name},
        group=_GROUPS[target],
        file_arguments=_FILE_ARGUMENTS.get(target, {}),
        argument_names=ARGUMENT_NAMES[target],
    )
    return name, entry


def _algorithmic() -> dict[str, Entry]:
    return dict(
        _entry(
            _ALGORITHMIC,
            f"algorithmic_{name}_{digits}40",
            f"{operation} of {digits} digits, trained on lengths 1..40"
            + (" (tensor2tensor's name)" if name != operation else ""),
            operation=operation,
            base=base,
        )
        for name, operation in _OPERATIONS.items()
        for digits, base in _BASES.items()
    )


def _babi() -> dict[str, Entry]:
    entries = [
        _entry(
            _BABI,
            "babi_qa",
            "bAbI, all twenty tasks jointly, 10,000 training questions each",
            size="10k",
        ),
        _entry(
            _BABI,
            "babi_qa_1k",
            "bAbI, all twenty tasks jointly, 1,000 training questions each",
            size="1k",
        ),
    ]
    for size in ("1k", "10k"):
        form: dict[str, Any] = {"size": size, "form": "tokens"}
        entries.append(
            _entry(
                _BABI,
                f"babi_qa_concat_all_tasks_{size}",
                f"bAbI, all tasks jointly, {size}, as one sequence",
                **form,
            )
        )
        for task in _ALL_TASKS:
            entries.append(
                _entry(
                    _BABI,
                    f"babi_qa_task{task}_{size}",
                    f"bAbI, task {task} alone, {size}",
                    size=size,
                    tasks=(task,),
                )
            )
            entries.append(
                _entry(
                    _BABI,
                    f"babi_qa_concat_task{task}_{size}",
                    f"bAbI, task {task} alone, {size}, as one sequence",
                    tasks=(task,),
                    **form,
                )
            )
    return dict(entries)


def _simulated() -> dict[str, Entry]:
    own_world = "simulated stories in bAbI's format with 1 to 3 supporting facts; needs no download"
    return dict(
        [
            _entry(_SIMULATED, "babi_sim", own_world),
            _entry(
                _SIMULATED_TASKS,
                "babi_sim_all_tasks",
                "bAbI, all twenty tasks jointly, simulated; needs no download",
            ),
            *(
                _entry(
                    _SIMULATED_TASKS,
                    f"babi_sim_task{task}",
                    f"bAbI, task {task} alone, simulated; needs no download",
                    tasks=(task,),
                )
                for task in _ALL_TASKS
            ),
        ]
    )


def _learning_to_execute() -> dict[str, Entry]:
    computes = {
        "program": "arithmetic, conditions and loops",
        "control": "conditions and loops",
        "addition": "sums",
    }
    memorises = {"copy": "copied", "double": "written twice", "reverse": "reversed"}
    return dict(
        [
            *(
                _entry(_LTE, f"lte_{task}", f"learning to execute: programs of {what}", task=task)
                for task, what in computes.items()
            ),
            *(
                _entry(
                    _LTE,
                    f"lte_{task}",
                    f"learning to execute: strings of up to 55 digits, to be {what}",
                    task=task,
                )
                for task, what in memorises.items()
            ),
            *(
                _entry(
                    _LTE,
                    f"lte_zaremba_{task}",
                    f"learning to execute: Python programs with variables and print, of {what}",
                    task=task,
                    form="statements",
                )
                for task, what in computes.items()
            ),
        ]
    )


def _reasoning() -> dict[str, Entry]:
    return dict(
        [
            *(
                _entry(
                    _SUDOKU,
                    f"sudoku_{digits}x{digits}",
                    f"Sudoku with {digits} digits, by number of blank cells; needs no download",
                    digits=digits,
                )
                for digits in (4, 6)
            ),
            _entry(
                _PREFIX_SUMS,
                "prefix_sums_32",
                "prefix sums of bits modulo 2, trained on lengths 1..32",
                max_length=32,
            ),
        ]
    )


def _agreement() -> dict[str, Entry]:
    return dict(
        [
            _entry(
                _NEXT_WORD,
                "sva_language_modeling",
                "agreement of subject and verb: next word, the right form of the verb against the"
                " wrong one",
            ),
            _entry(
                _NUMBER,
                "sva_number_prediction",
                "agreement of subject and verb: singular or plural, from the words before the verb",
            ),
        ]
    )


def _lambada() -> dict[str, Entry]:
    forms = {
        "lm": "a language model's last words",
        "rc": "the last word chosen among those of the context",
    }
    return dict(
        _entry(
            _LAMBADA[form],
            f"lambada_{form}{'_control' if control else ''}",
            f"LAMBADA: {what}" + (", evaluated on the control passages" if control else ""),
            control=control,
        )
        for form, what in forms.items()
        for control in (False, True)
    )


def _parsing() -> dict[str, Entry]:
    entries = [
        _entry(
            _PARSING,
            "parse_ptb",
            "constituency parsing: linearised trees of a treebank, or of your own files"
            " (train_trees=...)",
        )
    ]
    for name, words in (
        ("wsj_parsing", 0),
        ("parsing_english_ptb8k", 8192),
        ("parsing_english_ptb16k", 16384),
    ):
        text = (
            "constituency parsing"
            + (f", at most {words:,} words" if words else "")
            + " (tensor2tensor's name)"
        )
        entries.append(_entry(_PARSING, name, text, vocab_words=words, leaves="XX"))
    return dict(entries)


def _own_files() -> dict[str, Entry]:
    return dict(
        [
            _entry(
                _CLASSIFY_FILES,
                "classify_files",
                "classes of texts, learnt from your own files (--source_files)",
            ),
            _entry(
                _LM_FILES,
                "lm_files",
                "a language model of your own text (--source_files)",
            ),
        ]
    )


def _translation() -> dict[str, Entry]:
    entries = [
        _entry(
            _FILES,
            "translate_files",
            "translation learnt from your own files (--source_files, --target_files)",
        ),
        _entry(_FILES, "translate_files_rev", "the same from target to source", reverse=True),
    ]
    for code, language, size in (("de", "German", 37_000), ("fr", "French", 32_000)):
        for source, target, reverse in (("en", code, False), (code, "en", True)):
            what = f"{language} to English" if reverse else f"English to {language}"
            arguments: dict[str, Any] = {"language": code, "reverse": reverse}
            entries += [
                _entry(
                    _WMT,
                    f"translate_{source}{target}_wmt14",
                    f"WMT14, {what}, {size:,} subwords",
                    default_vocab_size=size,
                    **arguments,
                ),
                _entry(
                    _MULTI30K,
                    f"translate_{source}{target}_multi30k",
                    f"Multi30k, {what}, 8,000 subwords or the set's vocab_size",
                    **arguments,
                ),
            ]
            for size_name, words in (("32k", 32_000), ("8k", 8_000)):
                entries.append(
                    _entry(
                        _WMT,
                        f"translate_en{code}_wmt{size_name}" + ("_rev" if reverse else ""),
                        f"WMT14, {what}, {words:,} subwords (tensor2tensor's name)",
                        default_vocab_size=words,
                        **arguments,
                    )
                )
    return dict(entries)


PROBLEMS: dict[str, Entry] = {
    **_algorithmic(),
    **_babi(),
    **_simulated(),
    **_learning_to_execute(),
    **_reasoning(),
    **_agreement(),
    **_lambada(),
    **_parsing(),
    **_own_files(),
    **_translation(),
}
