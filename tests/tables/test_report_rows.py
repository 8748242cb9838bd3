"""ut-report: which figure belongs in which cell, and what may not be joined."""

from __future__ import annotations

import pytest

from tests.bin.stub_runs import evaluate, stub_run
from tests.tables.report_rows import at_400, ours, rows

COPY = "algorithmic_copy_decimal40"
ADDITION = "algorithmic_addition_decimal40"


def test_a_single_run_has_its_interval_beside_the_paper_s_figures(run_report, runs):
    folder = stub_run(runs / "a", ADDITION, "transformer_tiny")
    evaluate(
        folder,
        at_400(0.1, 0.02),
        intervals={"length_400/char_acc": [0.08, 0.12], "length_400/seq_acc": [0.0, 0.05]},
    )
    text = run_report()
    assert "Table 4. Algorithmic tasks" in text
    assert "Table 1." not in text
    assert ["Transformer", "paper", "", ".53/.03", ".13/.06", ".07/.0"] in rows(text)
    assert ours(text) == [
        ["Transformer", "`transformer_tiny`", "1", "", "", "0.10/0.02 [0.00, 0.05]"]
    ]


def test_validation_chooses_the_best_seed_and_not_the_test_data(run_report, runs):
    for seed, (test, validation) in enumerate([(0.9, 0.5), (0.7, 0.8), (0.8, 0.1)]):
        evaluate(
            stub_run(runs / str(seed), COPY, "ut_algorithmic", seed),
            at_400(test, test - 0.5),
            validation,
            "max",
        )
    (row,) = ours(run_report())
    assert row[1:5] == ["`ut_algorithmic`", "3", "0.70/0.20", "0.80 ± 0.10/0.30 ± 0.10"]


def test_twenty_single_tasks_make_one_cell_of_mean_error_and_failures(run_report, runs):
    for task in range(1, 21):
        evaluate(
            stub_run(runs / str(task), f"babi_qa_task{task}_10k"),
            {"error": 6.0 if task < 4 else 1.0},
        )
    text = run_report()
    assert ours(text, "1") == [["UT", "`ut_babi`", "1", "1.75 (3)", "", "", ""]]
    by_task = {row[0]: row[-1] for row in rows(text, "1a 10k single")}
    assert (by_task["task 3"], by_task["task 4"]) == ("6.0", "1.0")


@pytest.mark.parametrize(
    ("problem", "args", "record", "metrics", "words"),
    [
        (COPY, {"max_length": 20}, {}, at_400(0.5, 0.1), "max_length=20"),
        (COPY, {}, {"data_note": "other digits"}, at_400(0.5, 0.1), "other digits"),
        (COPY, {}, {"split": "validation"}, at_400(0.5, 0.1), "validation data instead of test"),
        (
            COPY,
            {},
            {"lengths": [80]},
            {"length_80/char_acc": 0.5, "length_80/seq_acc": 0.1},
            "length 80 instead of 400",
        ),
        ("algorithmic_copy_binary40", {}, {}, at_400(0.5, 0.1), "binary digits"),
    ],
)
def test_other_data_has_a_row_and_a_mark_of_its_own(
    run_report, runs, problem, args, record, metrics, words
):
    evaluate(stub_run(runs / "same", COPY, "ut_algorithmic", seed=1), at_400(0.9, 0.8))
    evaluate(
        stub_run(runs / "other", problem, "ut_algorithmic", seed=2, problem_args=args),
        metrics,
        **record,
    )
    text = run_report()
    assert [(row[0], row[2], row[3]) for row in ours(text)] == [
        ("UT", "1", "0.90/0.80"),
        ("UT†", "1", "0.50/0.10"),
    ]
    assert f"† {words}\n" in text


def test_rows_tell_models_and_overrides_apart_but_not_the_number_of_steps(run_report, runs):
    for name, hparams_set, overrides, seed in (
        ("a", "ut_algorithmic", "", 0),
        ("b", "ut_algorithmic", "train_steps=7", 1),
        ("c", "ut_algorithmic", "dropout=0.5,train_steps=7", 0),
        ("d", "ut_act_algorithmic", "", 0),
        ("e", "ut_algorithmic", "recurrence=gru", 0),
    ):
        evaluate(stub_run(runs / name, COPY, hparams_set, seed, overrides), at_400(0.5, 0.5), 1.0)
    evaluate(stub_run(runs / "f", COPY, "ut_algorithmic", averaged=True), at_400(0.5, 0.5))
    assert [(row[0], row[1], row[2]) for row in ours(run_report())] == [
        ("UT", "`ut_algorithmic`", "2"),
        ("UT", "`ut_algorithmic, dropout=0.5`", "1"),
        ("UT, averaged checkpoints", "`ut_algorithmic`", "1"),
        ("UT, dynamic halting", "`ut_act_algorithmic`", "1"),
        ("UT, gru recurrence", "`ut_algorithmic, recurrence=gru`", "1"),
    ]


def test_errors_by_task_are_a_table_for_each_setting_that_has_runs(run_report, runs):
    evaluate(stub_run(runs / "a", "babi_qa_task1_1k"), {"error": 3.0})
    evaluate(
        stub_run(runs / "b", "babi_qa"), {"error/1": 2.0, "mean_error": 2.0, "failed_tasks": 0.0}
    )
    tables = [line for line in run_report().splitlines() if line.startswith("## Table 1a")]
    assert [line.partition(".")[0] for line in tables] == [
        "## Table 1a 10k joint",
        "## Table 1a 1k single",
    ]


def test_two_runs_with_one_seed_are_not_two_seeds(run_report, runs):
    evaluate(
        stub_run(runs / "a", COPY, "ut_algorithmic"),
        at_400(0.1, 0.1),
        time="2026-01-02T00:00:00+00:00",
    )
    evaluate(
        stub_run(runs / "b", COPY, "ut_algorithmic"),
        at_400(0.2, 0.2),
        time="2026-01-01T00:00:00+00:00",
    )
    text = run_report()
    assert [row[2:4] for row in ours(text)] == [["1", "0.10/0.10"]]
    assert f"Left out: {runs}/b: the same seed (0) as {runs}/a" in text


def test_agreement_and_reading_comprehension_turn_errors_into_accuracies(run_report, runs):
    evaluate(
        stub_run(runs / "a", "sva_number_prediction", "ut_tiny"),
        {"error": 2.0, "error/3": 25.0},
        intervals={"error/3": [20.0, 40.0]},
    )
    text = run_report()
    assert ours(text, "2")[0][6] == "0.750 [0.600, 0.800]"
    assert ours(text, "2")[0][9] == "0.980"
    assert "† the verb's number is asked, not ranked" in text


def test_translation_of_other_text_stands_below_table_7_with_its_signature(run_report, runs):
    signature = "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0"
    evaluate(
        stub_run(runs / "a", "translate_ende_multi30k", "ut_translate_small"),
        {"bleu": 36.4},
        signatures={"bleu": signature},
    )
    evaluate(stub_run(runs / "b", "translate_ende_wmt14", "ut_base"), {"bleu": 27.0})
    text = run_report()
    assert [row[0] + row[3] for row in ours(text, "7")] == ["UT27.0", "UT†36.4"]
    assert "† translate_ende_multi30k\n" in text
    assert f"Signature: {signature}" in text


def test_runs_outside_the_tables_and_runs_to_be_evaluated_are_listed(run_report, runs):
    stub_run(runs / "later", COPY, "ut_algorithmic")
    stub_run(runs / "begun", COPY, "ut_algorithmic", trained=False)
    for seed in (1, 2):
        evaluate(
            stub_run(runs / f"sort{seed}", "sort_digits", "ut_tiny", seed),
            {"loss": 0.1, "accuracy": 0.5 + seed / 10},
            -seed,
        )
    text = run_report()
    assert f"ut-eval --output_dir={runs}/later\n" in text
    assert f"{runs}/begun has no checkpoint yet." in text
    others = text.split("## Other runs")[1]
    assert [cell.strip() for cell in others.splitlines()[-1].strip("|").split("|")][:7] == [
        *("`sort_digits`", "UT", "`ut_tiny`", "accuracy", "2", "0.7", "0.65 ± 0.07071")
    ]


def test_another_problem_s_data_is_told_apart_from_the_run_s_own(run_report, runs):
    folder = evaluate(stub_run(runs / "a", "babi_qa_task1_10k"), {"error": 1.0})
    evaluate(folder, {"error": 3.0}, test_problem="babi_sim_task1", data_note="simulated")
    text = run_report()
    assert ours(text, "1") == [["UT", "`ut_babi`", "1", "1.00 (0) (1 of 20 tasks)", "", "", ""]]
    last = [cell.strip() for cell in text.splitlines()[-1].strip("|").split("|")]
    assert last == [
        "`babi_sim_task1`",
        "UT",
        "`ut_babi`",
        "error",
        "simulated; trained on babi_qa_task1_10k",
        "3",
    ]


def test_tasks_that_are_missing_are_counted_and_several_sets_joined_by_validation(run_report, runs):
    for task in range(1, 20):
        evaluate(
            stub_run(runs / str(task), f"babi_qa_task{task}_10k"), {"error": 2.0}, validation=2.0
        )
    evaluate(
        stub_run(runs / "20", "babi_qa_task20_10k", "ut_babi_unordered"),
        {"error": 4.0},
        validation=0.0,
    )
    evaluate(
        stub_run(runs / "19b", "babi_qa_task19_10k", "ut_babi_unordered"),
        {"error": 12.0},
        validation=1.0,
    )
    cells = {(row[0], row[1]): row[3] for row in ours(run_report(), "1")}
    assert cells == {
        ("UT", "`ut_babi`"): "2.00 (0) (19 of 20 tasks)",
        ("UT", "`ut_babi_unordered`"): "8.00 (1) (2 of 20 tasks)",
        ("UT, the best set for each", ""): f"{(18 * 2 + 12 + 4) / 20:.2f} (1)",
    }


def test_another_checkpoint_than_the_best_has_a_mark(run_report, runs):
    evaluate(stub_run(runs / "a", COPY, "ut_algorithmic"), at_400(0.5, 0.5), checkpoint="last")
    evaluate(
        stub_run(runs / "b", COPY, "ut_algorithmic", seed=1),
        at_400(0.6, 0.6),
        checkpoint="runs/b/checkpoints/step-00000050",
    )
    # The last checkpoint was the best one.
    both = evaluate(stub_run(runs / "c", COPY, "ut_algorithmic", seed=2), at_400(0.7, 0.7))
    evaluate(both, at_400(0.7, 0.7), checkpoint="last")
    text = run_report()
    assert [(row[0], row[2], row[3]) for row in ours(text)] == [
        ("UT", "1", "0.70/0.70"),
        ("UT†", "1", "0.50/0.50"),
        ("UT‡", "1", "0.60/0.60"),
    ]
    assert "† last checkpoint instead of best\n" in text
    assert "‡ step-00000050 checkpoint instead of best" in text
