"""Commands: messages, exit statuses, what they print where, and that they answer without TensorFlow
where they can.
"""

from __future__ import annotations

import json
import re
import sys
import types
from pathlib import Path

import pytest

from tests.bin.quick_commands import Answer, call_commands
from ut_tf.bin import avg_checkpoints, datagen, trainer
from ut_tf.bin import eval as eval_command
from ut_tf.bin.frame import command
from ut_tf.bin.frame.declarations import shared
from ut_tf.config.hparams import HParams
from ut_tf.errors import UserError, marked
from ut_tf.evaluation.measurement import CheckpointMeasurement
from ut_tf.evaluation.records import Record, read_records
from ut_tf.notices import warn
from ut_tf.run import Run
from ut_tf.run_config import write_config
from ut_tf.storage.typed_lines import typed

STORED_RUN = Path(__file__).parents[1] / "stored_runs" / "transformer_subwords" / "run"
# Module in ut_tf.bin, arguments, exit status, stream and a part of what is written there.
QUICK_ANSWERS: tuple[tuple[str, list[str], int, str, str], ...] = (
    ("trainer", ["--registry_help"], 0, "output", "ut_base"),
    (
        "trainer",
        ["--hparam_set=x"],
        2,
        "errors",
        "ut-trainer: error: unknown flag --hparam_set; did you mean --hparams_set",
    ),
    ("trainer", ["--problem=babi_q", "--hparams_set=ut_base"], 1, "errors", "did you mean babi_qa"),
    ("trainer", ["--problem=babi_sim"], 2, "errors", "ut_act_babi and ut_demo fit babi_sim"),
    ("trainer", ["--schedule=train_eval_loop"], 2, "errors", "expected one of train"),
    ("eval", [], 2, "errors", "--output_dir is missing"),
    ("eval", ["--output_dir=/nonexistent/run"], 1, "errors", "holds no run"),
    (
        "eval",
        [f"--output_dir={STORED_RUN}", "--checkpoint=besst"],
        1,
        "errors",
        "--checkpoint=besst: there is no besst",
    ),
    ("datagen", ["--only_list", "--problem=babi_*"], 0, "output", "babi_qa"),
    ("datagen", ["--problem=nothing_like_*"], 1, "errors", "matches no problem"),
    ("avg_checkpoints", ["--n=0"], 2, "errors", "--n=0: expected at least 1"),
    (
        "avg_checkpoints",
        ["--checkpoints=1,2", "--n=2"],
        2,
        "errors",
        "--n and --checkpoints each say which",
    ),
    (
        "import_t2t",
        ["--t2t_dir=/nonexistent", "--output_dir=x"],
        1,
        "errors",
        "/nonexistent/hparams.json does not exist",
    ),
    (
        "import_run",
        ["--from=tensor2tensor", "--t2t_dir=/nonexistent", "--output_dir=x"],
        1,
        "errors",
        "/nonexistent/hparams.json does not exist",
    ),
    ("import_run", ["--from=trn", "--output_dir=x"], 2, "errors", "did you mean trm"),
    ("import_run", ["--output_dir=x"], 2, "errors", "--from is missing"),
    ("import_run", ["--from=trm", "--output_dir=x"], 2, "errors", "--checkpoint is missing"),
    (
        "import_run",
        ["--from=hrm", "--vocab=v", "--output_dir=x"],
        2,
        "errors",
        "--vocab is not read with --from=hrm",
    ),
    (
        "decoder",
        [f"--output_dir={STORED_RUN}", "--decode_hparams=beam=2"],
        2,
        "errors",
        "did you mean beam_size",
    ),
    ("show", ["--html=page.pdf"], 2, "errors", "--html=page.pdf: expected a name that ends in"),
    ("report", ["/nonexistent/runs"], 1, "errors", "/nonexistent/runs is no folder"),
)


def _name(number: int) -> str:
    module, argv, *_ = QUICK_ANSWERS[number]
    return " ".join([module, *argv])


@pytest.fixture(scope="module")
def answers() -> list[Answer]:
    """Those of one process, in the order of QUICK_ANSWERS."""
    return call_commands([(module, argv) for module, argv, *_ in QUICK_ANSWERS])


@pytest.mark.parametrize("number", range(len(QUICK_ANSWERS)), ids=_name)
def test_answers_without_tensorflow_in_one_line(number: int, answers: list[Answer]) -> None:
    *_, status, stream, expected = QUICK_ANSWERS[number]
    answer = answers[number]
    assert (answer.status, answer.imported) == (status, []), answer.errors
    assert expected in getattr(answer, stream)
    if status:
        assert len(answer.errors.splitlines()) == 1
        assert not answer.output


def _raise(error: BaseException) -> None:
    raise error


def test_errors_and_their_exit_statuses(capsys):
    assert command.execute("ut-x", (), lambda _: _raise(UserError("a\n  b"))) == 1
    assert capsys.readouterr().err == "ut-x: error: a b\n"
    assert command.execute("ut-x", (), lambda _: _raise(KeyboardInterrupt())) == 130
    assert capsys.readouterr().err == "ut-x: interrupted\n"
    with pytest.raises(ZeroDivisionError):
        command.execute("ut-x", (), lambda _: _raise(ZeroDivisionError()))
    assert (
        command.execute(
            "ut-x",
            (),
            lambda _: _raise(
                RuntimeError(f"Graph execution error:\n{marked('too long: cut it.')}\n[Op:x]")
            ),
        )
        == 1
    )
    assert capsys.readouterr().err == "ut-x: error: too long: cut it.\n"
    assert command.execute("ut-x", (), lambda _: None) == 0
    assert command.execute("ut-x", (), lambda _: 5) == 5


def test_warnings_of_the_library_name_flags_within_a_command(capsys):
    def body(_: list[str]) -> None:
        warn("`seed`=3 and `data_dir`")
        command.tell("ut-x", "warning: no record is kept: name another `output_dir`.")

    flags = shared("random_seed", "output_dir")
    assert command.execute("ut-x", flags, body) == 0
    assert capsys.readouterr().err.splitlines() == [
        "warning: --random_seed=3 and data_dir",
        "ut-x: warning: no record is kept: name another --output_dir.",
    ]
    warn("`seed`=3")
    assert capsys.readouterr().err == "warning: `seed`=3\n"


@pytest.fixture
def stub_library(monkeypatch):
    """Stands in for what imports TensorFlow: records how the commands call it."""
    calls: dict[str, object] = {}

    def module(name: str, **attributes: object) -> None:
        made = types.ModuleType(name)
        for key, value in attributes.items():
            setattr(made, key, value)
        monkeypatch.setitem(sys.modules, name, made)

    def train(run, train_steps=None, **options):
        calls["train"] = {"run": run, "train_steps": train_steps, **options}
        print("progress")
        result = types.SimpleNamespace(
            step=train_steps or 0,
            metrics={"loss": 1.5},
            evaluated_step=5,
            stopped_by=calls.get("stopped_by", "train_steps"),
        )
        if result.stopped_by == "signal":
            raise _Interrupted(result)
        return result

    def evaluate(run, **options):
        calls["evaluate"] = {"run": run, **options}
        print("noise")
        return CheckpointMeasurement(
            metrics={"z": 2.0, "a": 1.0}, intervals={"a": (0.5, 1.25)}, step=70, split="test"
        )

    def average_checkpoints(run, steps, destination):
        calls["average"] = (run, steps, destination)

    for name in ("trainer", "eval_command", "avg_checkpoints", "datagen"):
        monkeypatch.setattr(globals()[name], "import_tensorflow", lambda: None)
    for made in (trainer, avg_checkpoints):
        monkeypatch.setattr(made, "check_checkpoint", lambda *_: None)
    module(
        "ut_tf.training.distribution",
        make_strategy=lambda num_gpus: f"strategy {num_gpus}",
        on_accelerator=lambda _strategy: False,
        worker_count=lambda: 1,
    )
    module("ut_tf.training.agreement", check_settings=None)
    module("ut_tf.training.trainer", train=train, TrainingInterrupted=_Interrupted)
    module(
        "ut_tf.evaluation.evaluator",
        evaluate=lambda run, **options: evaluate(run, **options).metrics,
        measure_checkpoint=evaluate,
    )

    steps = {"last_steps": [200, 300], "best_steps": [100, 300]}
    choices = {name: lambda _run, n, there=there: there[: n or 2] for name, there in steps.items()}
    module("ut_tf.training.averaging", average_checkpoints=average_checkpoints, **choices)
    monkeypatch.setattr(Run, "start", lambda self, _on_accelerator=None: self)
    monkeypatch.setattr(Run, "prepare", lambda self, problem=None: self)  # noqa: ARG005
    return calls


class _Interrupted(KeyboardInterrupt):
    def __init__(self, result):
        super().__init__()
        self.result = result


def _train(tmp_path: Path, *more: str) -> int:
    return trainer.main(
        ["--problem=babi_qa", "--hparams_set=ut_base", f"--output_dir={tmp_path}/my run", *more]
    )


def test_a_training_that_was_told_to_stop_says_so_by_its_status(stub_library, tmp_path, capsys):
    stub_library["stopped_by"] = "signal"
    assert _train(tmp_path, "--train_steps=50") == 130
    printed = capsys.readouterr().out
    assert "interrupted at step 50" in printed and "loss" in printed
    assert re.search("^next: ut-trainer .*--train_steps=50$", printed, re.MULTILINE)


@pytest.mark.usefixtures("stub_library")
def test_a_warm_start_needs_a_run(tmp_path, capsys):
    assert _train(tmp_path, f"--warm_start_from={tmp_path}/nothing") == 1
    assert "--warm_start_from" in capsys.readouterr().err
    folder = tmp_path / "my run"
    (folder / "checkpoints" / "step-00000010").mkdir(parents=True)
    write_config(Run.plan("babi_qa", "ut_base", output_dir=tmp_path / "same"), folder)
    assert _train(tmp_path, f"--warm_start_from={tmp_path}/nothing") == 0


def test_eval_prints_one_json_object_on_stdout_and_in_a_terminal_only_if_asked(
    stub_library, monkeypatch, tmp_path, capsys
):
    loaded = types.SimpleNamespace(
        problem="p",
        hparams_set="s",
        hparams=HParams(),
        seed=4,
        output_dir=tmp_path,
        is_saved_model=False,
    )
    monkeypatch.setattr(eval_command, "check_checkpoint", lambda *_: None)
    loaded.prepare = lambda _problem: loaded
    loaded.in_use = lambda _changes: loaded
    sets = [types.SimpleNamespace(length=40)]
    loaded.make_problem = lambda: types.SimpleNamespace(
        evaluation_sets=lambda lengths: sets if lengths else []
    )
    monkeypatch.setattr(Run, "load", lambda *_args, **_options: loaded)
    assert (
        eval_command.main(
            ["--output_dir=x", "--lengths=40,400", "--checkpoint=last", "--split=test"]
        )
        == 0
    )
    captured = capsys.readouterr()
    assert json.loads(captured.out) == {"a": 1.0, "z": 2.0}
    assert captured.out.count("\n") == 1
    assert "noise" in captured.err
    assert (
        "p with s, checkpoint of step 70; test split; 95% intervals in brackets\n"
        "  z  2\n  a  1.00 [0.50, 1.25]\n"
    ) in captured.err
    (record,) = read_records(tmp_path)
    assert (record.checkpoint, record.step, record.lengths, record.seed, record.metrics) == (
        "last",
        70,
        (40, 400),
        4,
        {"a": 1, "z": 2},
    )
    assert record.intervals == {"a": (0.5, 1.25)}
    call = stub_library["evaluate"]
    assert (call["checkpoint"], call["lengths"], call["split"]) == ("last", (40, 400), "test")
    assert eval_command.main(["--output_dir=x", "--json=record"]) == 0
    assert typed(json.loads(capsys.readouterr().out), Record) == read_records(tmp_path)[1]
    assert eval_command.main(["--output_dir=x", "--json=table"]) == 2
    capsys.readouterr()
    for step in (70, 90):
        (tmp_path / "checkpoints" / f"step-{step:08d}").mkdir(parents=True)
    (tmp_path / "checkpoints" / "best.json").write_text('{"step": 70}')
    with monkeypatch.context() as terminal:
        terminal.setattr(sys.stdout, "isatty", lambda: True)
        assert eval_command.main(["--output_dir=x"]) == 0
        captured = capsys.readouterr()
        assert captured.out == ""
        assert (
            "validation chose step 70; --checkpoint=last evaluates step 90\n"
            "  z  2\n  a  1.00 [0.50, 1.25]\n"
        ) in captured.err
        assert eval_command.main(["--output_dir=x", "--json"]) == 0
        assert json.loads(capsys.readouterr().out) == {"a": 1.0, "z": 2.0}
    loaded.output_dir = tmp_path / "gone"
    assert eval_command.main(["--output_dir=x"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out) == {"a": 1.0, "z": 2.0}
    assert "warning: no record is kept" in captured.err
    sets[0].length = None
    assert eval_command.main(["--output_dir=x", "--lengths=40,400"]) == 1
    assert "makes no examples of a given length" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "source", "destination", "steps"),
    [
        (["--output_dir=a", "--avg_dir=b"], "a", "b", [200, 300]),
        (["--model_dir=a", "--output_dir=b"], "a", "b", [200, 300]),
        (["--model_dir=a/", "--n=1"], "a", "a-avg1", [200]),
        (["--output_dir=a", "--best=2"], "a", "a-avgbest2", [100, 300]),
        (["--output_dir=a", "--checkpoints=300,100"], "a", "a-avg100+300", [100, 300]),
    ],
)
def test_averaging_names_its_directories(
    stub_library, monkeypatch, tmp_path, argv, source, destination, steps
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        Run, "load", lambda folder, **_options: types.SimpleNamespace(output_dir=folder)
    )
    assert avg_checkpoints.main(argv) == 0
    run, averaged, written = stub_library["average"]
    assert (run.output_dir, averaged, written) == (tmp_path / source, steps, tmp_path / destination)


@pytest.mark.usefixtures("stub_library")
def test_datagen_prepares_each_problem(monkeypatch, tmp_path, capsys):
    prepared = []
    stub = types.SimpleNamespace(
        prepare=lambda data_dir, tmp_dir: prepared.append((data_dir, tmp_dir))
    )

    def make(name, arguments, training):
        assert training is None
        prepared.append((name, arguments))
        return stub

    monkeypatch.setattr(datagen, "make_problem", make)
    argv = [
        *("--problem=babi_qa,babi_qa_1k", f"--data_dir={tmp_path}/d", f"--tmp_dir={tmp_path}/t"),
        *("--problem_args=max_facts=2", "--num_shards=10"),
    ]
    assert datagen.main(argv) == 0
    folders = (tmp_path / "d", tmp_path / "t")
    assert prepared == [
        ("babi_qa", {"max_facts": 2}),
        folders,
        ("babi_qa_1k", {"max_facts": 2}),
        folders,
    ]
    captured = capsys.readouterr()
    assert (
        f"ut-trainer --problem=babi_qa --hparams_set=ut_babi_joint --data_dir={tmp_path}/d"
        in captured.out
    )
    assert "--num_shards without effect" in captured.err
