"""The names of all problems. Nothing is imported until a name is looked up."""

from __future__ import annotations

from typing import Any

from ut_tf.registry import Entry

_ALGORITHMIC = "ut_tf.problems.algorithmic:Algorithmic"
_BABI = "ut_tf.problems.babi:BabiQA"
_SIMULATED = "ut_tf.problems.babi_simulator:SimulatedBabi"
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


PROBLEMS: dict[str, Entry] = {**_algorithmic(), **_babi(), **_simulated()}
