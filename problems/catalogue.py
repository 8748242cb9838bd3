"""The names of all problems. Nothing is imported until a name is looked up."""

from __future__ import annotations

from typing import Any

from ut_tf.registry import Entry

_ALGORITHMIC = "ut_tf.problems.algorithmic:Algorithmic"
_BABI = "ut_tf.problems.babi:BabiQA"
_SIMULATED = "ut_tf.problems.babi_simulator:SimulatedBabi"
_FILES = "ut_tf.problems.translation_files:TranslateFiles"
_MULTI30K = "ut_tf.problems.translation_multi30k:TranslateMulti30k"
_WMT = "ut_tf.problems.translation_wmt:TranslateWmt14"
_BASES = {"binary": 2, "decimal": 10}
# tensor2tensor calls copying "identity".
_OPERATIONS = {"copy": "copy", "identity": "copy", "reverse": "reverse", "addition": "addition"}
_ALL_TASKS = tuple(range(1, 21))


def _entry(target: str, name: str, description: str, **arguments: Any) -> tuple[str, Entry]:
    return name, Entry(target, description, {**arguments, "name": name})


def _algorithmic() -> dict[str, Entry]:
    return dict(
        _entry(
            _ALGORITHMIC,
            f"algorithmic_{name}_{digits}40",
            f"{operation} of {digits} digits, trained on lengths 1..40" + (" (tensor2tensor's name)" if name != operation else ""),
            operation=operation,
            base=base,
        )
        for name, operation in _OPERATIONS.items()
        for digits, base in _BASES.items()
    )


def _babi() -> dict[str, Entry]:
    entries = [
        _entry(_BABI, "babi_qa", "bAbI, all twenty tasks jointly, 10,000 training questions each", size="10k"),
        _entry(_BABI, "babi_qa_1k", "bAbI, all twenty tasks jointly, 1,000 training questions each", size="1k"),
    ]
    for size in ("1k", "10k"):
        form: dict[str, Any] = {"size": size, "form": "tokens"}
        entries.append(_entry(_BABI, f"babi_qa_concat_all_tasks_{size}", f"bAbI, all tasks jointly, {size}, as one sequence", **form))
        for task in _ALL_TASKS:
            entries.append(_entry(_BABI, f"babi_qa_task{task}_{size}", f"bAbI, task {task} alone, {size}", size=size, tasks=(task,)))
            entries.append(
                _entry(
                    _BABI, f"babi_qa_concat_task{task}_{size}", f"bAbI, task {task} alone, {size}, as one sequence", tasks=(task,), **form
                )
            )
    return dict(entries)


def _simulated() -> dict[str, Entry]:
    about = {1: "where a person is", 2: "where an object is", 3: "where an object was before"}
    return dict(
        [
            _entry(_SIMULATED, "babi_sim", "simulated stories in bAbI's format, all three tasks jointly; needs no download"),
            *(
                _entry(_SIMULATED, f"babi_sim_task{number}", f"simulated stories: {what}", supporting_facts=number)
                for number, what in about.items()
            ),
        ]
    )


def _translation() -> dict[str, Entry]:
    entries = [
        _entry(_FILES, "translate_files", "translation learnt from your own files (--source_files, --target_files)"),
        _entry(_FILES, "translate_files_rev", "the same from target to source", reverse=True),
    ]
    for code, language, size in (("de", "German", 37_000), ("fr", "French", 32_000)):
        for source, target, reverse in (("en", code, False), (code, "en", True)):
            what = f"{language} to English" if reverse else f"English to {language}"
            arguments: dict[str, Any] = {"language": code, "reverse": reverse}
            entries += [
                _entry(
                    _WMT, f"translate_{source}{target}_wmt14", f"WMT14, {what}, {size:,} subwords", default_vocab_size=size, **arguments
                ),
                _entry(_MULTI30K, f"translate_{source}{target}_multi30k", f"Multi30k, {what}, 8,000 subwords", **arguments),
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


PROBLEMS: dict[str, Entry] = {**_algorithmic(), **_babi(), **_simulated(), **_translation()}
