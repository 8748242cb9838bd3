"""The tables of "Universal Transformers" (arXiv 1807.03819v3), as printed, and which problems'
figures belong in their columns.

::

    make_report(PAPER_TABLES, runs)      # ut-report

Plain data of the kinds that ``ut_tf.tables.layout`` describes. A source with a
note is other data than the paper's: its figures get rows of their own, with a mark.
"""

from __future__ import annotations

from collections.abc import Mapping

from ut_tf.tables.layout import Column, Measure, PublishedRow, Source, Table, Tables

_TASKS = tuple(range(1, 21))
_SIZES = ("10k", "1k")
_JOINT = {"10k": "babi_qa", "1k": "babi_qa_1k"}
_ONE_SEQUENCE = "each story as one sequence of words"
# As the simulated problems say it of themselves.
_SIMULATED = "simulated"
_OWN_WORLD = "simulated, another world"
_FAILED = 5.0


def _babi_errors() -> Table:
    """Table 1: a failed task has an error above 5 %."""
    over_tasks = (Measure("error"), Measure("error", over="count above limit", limit=_FAILED))
    joint = (Measure("mean_error"), Measure("failed_tasks"))
    columns = []
    for size in _SIZES:
        single = [
            Source(_single(size), over_tasks),
            Source(_single(size, "concat_"), over_tasks, note=_ONE_SEQUENCE),
        ]
        together = [
            Source((_JOINT[size],), joint),
            Source((f"babi_qa_concat_all_tasks_{size}",), joint, note=_ONE_SEQUENCE),
        ]
        if size == "10k":
            single.append(
                Source(
                    tuple(f"babi_sim_task{task}" for task in _TASKS), over_tasks, note=_SIMULATED
                )
            )
            together += [
                Source(("babi_sim_all_tasks",), joint, note=_SIMULATED),
                Source(("babi_sim",), joint, note=_OWN_WORLD),
            ]
        for setting, sources in (("single", single), ("joint", together)):
            columns.append(Column(f"{size} {setting}", tuple(sources), "{} ({})", (2, 0)))
    published = (
        PublishedRow("QRNet", ("0.3 (0)", "-", "-", "-")),
        PublishedRow("Sparse DNC", ("-", "2.9 (1)", "-", "-")),
        PublishedRow("GA+MAGE", ("-", "-", "8.7 (5)", "-")),
        PublishedRow("MemN2N", ("-", "-", "-", "12.4 (11)")),
        PublishedRow(
            "Transformer", ("15.2 (10)", "22.1 (12)", "21.8 (5)", "26.8 (14)"), "best of 10"
        ),
        PublishedRow("UT", ("0.23 (0)", "0.47 (0)", "5.31 (5)", "8.50 (8)"), "best of 10"),
        PublishedRow(
            "UT, dynamic halting", ("0.21 (0)", "0.29 (0)", "4.55 (3)", "7.78 (5)"), "best of 10"
        ),
        PublishedRow("UT, dynamic halting", ("0.73", "1.12", "6.34", "11.21"), "mean of 10"),
    )
    return Table(
        "1", "bAbI: mean error in % (failed tasks of 20)", tuple(columns), published, unit="tasks"
    )


def _single(size: str, form: str = "") -> tuple[str, ...]:
    return tuple(f"babi_qa_{form}task{task}_{size}" for task in _TASKS)


# Errors of the best seed that are not 0, from the paper's appendix: 10k single, 10k joint, 1k
# single, 1k joint.
_ERRORS_BY_TASK: dict[int, tuple[str, str, str, str]] = {
    2: ("0", "0", "0", ".5"),
    3: (".4", "1.2", "3.7", "5.4"),
    5: ("0", "0", "0", ".5"),
    6: ("0", "0", "0", ".5"),
    7: ("0", "0", "0", "3.2"),
    8: ("0", "0", "0", "1.6"),
    9: ("0", "0", "0", ".2"),
    10: ("0", "0", "0", ".4"),
    11: ("0", "0", "0", ".1"),
    13: ("0", "0", "0", ".6"),
    14: ("0", "0", "0", "3.8"),
    15: ("0", "0", "0", "5.9"),
    16: (".4", "1.2", "5.8", "15.4"),
    17: (".6", ".2", "32.0", "42.9"),
    18: ("0", "0", "0", "4.1"),
    19: ("2.8", "3.1", "47.1", "68.2"),
    20: ("0", "0", "2.4", "2.4"),
}
_NO_ERRORS = ("0", "0", "0", "0")


def _babi_by_task() -> Table:
    settings = [f"{size} {setting}" for size in _SIZES for setting in ("single", "joint")]
    columns = tuple(Column(str(task), tuple(_sources_of_task(task)), "{}", (1,)) for task in _TASKS)
    published = tuple(
        PublishedRow(
            "UT, dynamic halting",
            tuple(_ERRORS_BY_TASK.get(task, _NO_ERRORS)[number] for task in _TASKS),
            "best of 10",
            variant=setting,
        )
        for number, setting in enumerate(settings)
    )
    return Table("1a", "bAbI: error in % by task", columns, published, upright=True)


def _sources_of_task(task: int) -> list[Source]:
    of_task, of_all = (Measure("error"),), (Measure(f"error/{task}"),)
    sources = []
    for size in _SIZES:
        single, joint = f"{size} single", f"{size} joint"
        sources += [
            Source((f"babi_qa_task{task}_{size}",), of_task, variant=single),
            Source(
                (f"babi_qa_concat_task{task}_{size}",), of_task, note=_ONE_SEQUENCE, variant=single
            ),
        ]
        if size == "10k":
            sources.append(
                Source((f"babi_sim_task{task}",), of_task, note=_SIMULATED, variant=single)
            )
        sources += [
            Source((_JOINT[size],), of_all, variant=joint),
            Source(
                (f"babi_qa_concat_all_tasks_{size}",), of_all, note=_ONE_SEQUENCE, variant=joint
            ),
        ]
        if size == "10k":
            sources.append(Source(("babi_sim_all_tasks",), of_all, note=_SIMULATED, variant=joint))
    return sources


def _babi_ponder_times() -> Table:
    columns = []
    for count, facts in enumerate(("one", "two", "three"), 1):
        group = f"supporting_facts_{count}"
        measures = (Measure(f"ponder_time/{group}"), Measure(f"ponder_time_std/{group}"))
        sources = []
        for size in _SIZES:
            sources += [
                # Every question of task 1 has one supporting fact, of task 2 two, of task 3 three.
                Source(
                    (f"babi_qa_task{count}_{size}",),
                    measures,
                    variant=f"{size} single, tasks 1 to 3",
                ),
                Source((_JOINT[size],), measures, variant=f"{size} joint"),
            ]
            if size == "10k":
                sources += [
                    Source(
                        (f"babi_sim_task{count}",),
                        measures,
                        note=_SIMULATED,
                        variant=f"{size} single, tasks 1 to 3",
                    ),
                    Source(
                        ("babi_sim_all_tasks",), measures, note=_SIMULATED, variant=f"{size} joint"
                    ),
                    Source(("babi_sim",), measures, note=_OWN_WORLD, variant=f"{size} joint"),
                ]
        columns.append(Column(facts, tuple(sources), "{} ± {}", (2, 2), deviations=False))
    published = (
        PublishedRow(
            "UT, dynamic halting", ("2.3 ± 0.8", "3.1 ± 1.1", "3.8 ± 2.2"), variant="all test data"
        ),
    )
    title = "bAbI: ponder time, mean ± deviation over positions, by supporting facts"
    return Table("1b", title, tuple(columns), published)


def _agreement() -> Table:
    groups = [
        ("0", "/0"),
        ("1", "/1"),
        ("2", "/2"),
        ("3", "/3"),
        ("4", "/4"),
        ("5", "/5"),
        ("total", ""),
    ]
    columns = tuple(
        Column(
            title,
            (
                Source(("sva_language_modeling",), (Measure(f"accuracy{group}"),)),
                Source(
                    ("sva_number_prediction",),
                    (Measure(f"error{group}", from_error=True),),
                    note="the verb's number is asked, not ranked",
                ),
            ),
            "{}",
            (3,),
        )
        for title, group in groups
    )
    published = (
        PublishedRow("best Stack-RNN", (".994", ".979", ".965", ".935", ".916", ".880", ".992")),
        PublishedRow("best LSTM", (".993", ".972", ".950", ".922", ".900", ".842", ".991")),
        PublishedRow("best attention", (".994", ".977", ".959", ".929", ".907", ".842", ".992")),
        PublishedRow("Transformer", (".973", ".941", ".932", ".917", ".901", ".883", ".962")),
        PublishedRow("UT", (".993", ".971", ".969", ".940", ".921", ".892", ".992")),
        PublishedRow(
            "UT, dynamic halting", (".994", ".969", ".967", ".944", ".932", ".907", ".992")
        ),
    )
    return Table(
        "2", "Subject-verb agreement: accuracy by number of attractors", columns, published
    )


def _lambada() -> Table:
    target = (Measure("target/perplexity"), Measure("target/accuracy"))
    answer = (Measure("error", from_error=True),)
    columns = (
        Column("LM control", (Source(("lambada_lm_control",), target),), "{} ({})", (0, 2)),
        Column("LM dev", (Source(("lambada_lm",), target, split="validation"),), "{} ({})", (0, 2)),
        Column("LM test", (Source(("lambada_lm",), target),), "{} ({})", (0, 2)),
        Column("RC control", (Source(("lambada_rc_control",), answer),), "{}", (4,)),
        Column("RC dev", (Source(("lambada_rc",), answer, split="validation"),), "{}", (4,)),
        Column("RC test", (Source(("lambada_rc",), answer),), "{}", (4,)),
    )
    published = (
        PublishedRow("Neural cache", ("129", "139", "-", "-", "-", "-")),
        PublishedRow("Dhingra et al.", ("-", "-", "-", "-", "-", ".5569")),
        PublishedRow(
            "Transformer", ("142 (.19)", "5122 (0)", "7321 (0)", ".4102", ".4401", ".3988")
        ),
        PublishedRow("LSTM", ("138 (.23)", "4966 (0)", "5174 (0)", ".1103", ".2316", ".2007")),
        PublishedRow(
            "UT base, 6 steps", ("131 (.32)", "279 (.18)", "319 (.17)", ".4801", ".5422", ".5216")
        ),
        PublishedRow(
            "UT, dynamic halting",
            ("130 (.32)", "134 (.22)", "142 (.19)", ".4603", ".5831", ".5625"),
        ),
        PublishedRow("UT base, 8 steps", ("129 (.32)", "192 (.21)", "202 (.18)", "-", "-", "-")),
        PublishedRow("UT base, 9 steps", ("129 (.33)", "214 (.21)", "239 (.17)", "-", "-", "-")),
    )
    title = "LAMBADA: perplexity (accuracy) of the target word (LM); accuracy of the answer (RC)"
    return Table("3", title, columns, published)


def _at_length() -> tuple[Measure, Measure]:
    return Measure("length_{length}/char_acc"), Measure("length_{length}/seq_acc")


def _algorithmic() -> Table:
    columns = tuple(
        Column(
            operation,
            (
                Source((f"algorithmic_{operation}_decimal40",), _at_length(), length=400),
                Source(
                    (f"algorithmic_{operation}_binary40",),
                    _at_length(),
                    length=400,
                    note="binary digits",
                ),
            ),
            "{}/{}",
            (2, 2),
        )
        for operation in ("copy", "reverse", "addition")
    )
    published = (
        PublishedRow("LSTM", (".45/.09", ".66/.11", ".08/.0")),
        PublishedRow("Transformer", (".53/.03", ".13/.06", ".07/.0")),
        PublishedRow("UT", (".91/.35", ".96/.46", ".34/.02")),
        PublishedRow("Neural GPU, with a curriculum", ("1/1", "1/1", "1/1")),
    )
    return Table(
        "4",
        "Algorithmic tasks, trained up to length 40, at length 400: char-acc/seq-acc",
        columns,
        published,
    )


def _execution(
    number: str, what: str, tasks: tuple[str, ...], length: int, rows: Mapping[str, tuple[str, ...]]
) -> Table:
    columns = []
    for task in tasks:
        sources = [Source((f"lte_{task}",), _at_length(), length=length)]
        if number == "6":
            statements = Source(
                (f"lte_zaremba_{task}",),
                _at_length(),
                length=length,
                note="programs with variables and print",
            )
            sources.append(statements)
        columns.append(Column(task, tuple(sources), "{}/{}", (2, 2)))
    published = tuple(PublishedRow(model, cells) for model, cells in rows.items())
    return Table(
        number, f"Learning to execute, {what}: char-acc/seq-acc", tuple(columns), published
    )


def _translation() -> Table:
    bleu = (Measure("bleu"),)
    column = Column(
        "BLEU",
        (Source(("translate_ende_wmt14",), bleu), Source(("translate_*",), bleu, note="{problem}")),
        "{}",
        (1,),
    )
    published = (
        PublishedRow("UT small", ("26.8",)),
        PublishedRow("Transformer base", ("28.0",)),
        PublishedRow("Weighted Transformer base", ("28.4",)),
        PublishedRow("UT base", ("28.9",)),
    )
    return Table("7", "WMT14 English to German: BLEU on newstest2014", (column,), published)


_MEMORISATION = {
    "LSTM": (".78/.11", ".51/.047", ".91/.32"),
    "Transformer": (".98/.63", ".94/.55", ".81/.26"),
    "UT": ("1/1", "1/1", "1/1"),
}
_PROGRAMS = {
    "LSTM": (".53/.12", ".68/.21", ".83/.11"),
    "Transformer": (".71/.29", ".93/.66", "1/1"),
    "UT": (".89/.63", "1/1", "1/1"),
}

PAPER_TABLES = Tables(
    publication="paper",
    tables=(
        _babi_errors(),
        _babi_by_task(),
        _babi_ponder_times(),
        _agreement(),
        _lambada(),
        _algorithmic(),
        _execution(
            "5", "memorisation of up to 55 digits", ("copy", "double", "reverse"), 55, _MEMORISATION
        ),
        _execution(
            "6",
            "programs of length 5 and nesting 2",
            ("program", "control", "addition"),
            5,
            _PROGRAMS,
        ),
        _translation(),
    ),
    same_problems={
        **{
            f"algorithmic_identity_{digits}40": f"algorithmic_copy_{digits}40"
            for digits in ("binary", "decimal")
        },
        "translate_ende_wmt32k": "translate_ende_wmt14",
    },
    neutral_arguments=frozenset(
        {
            "train_examples",
            "validation_examples",
            "test_examples",
            "long_test_examples",
            "validation_length",
            "processes",
            "beam_pipeline_options",
            # What a record says of itself: the split that was judged, and in how many folds.
            "evaluate_on",
            "folds",
        }
    ),
)
