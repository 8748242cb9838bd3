"""Runs of others or damaged ones, and names that cannot be: one line, and no code is executed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.bin.stub_runs import stub_run
from tests.bin.tiny_runs import digits_run
from ut_tf.bin import avg_checkpoints, decoder, exporter, insights, query, report, show, trainer
from ut_tf.bin import eval as eval_command
from ut_tf.bin.sweep import _sweep, _values
from ut_tf.errors import UserError
from ut_tf.run import Run

READERS = (eval_command, decoder, exporter, show, avg_checkpoints)


@pytest.fixture
def call(capsys, monkeypatch):
    """Calls a command; gives its status and its line on standard error."""
    monkeypatch.delenv("UT_TF_TRACEBACK")

    def call(command, *argv):
        status = command.main([*argv])
        errors = capsys.readouterr().err.splitlines()
        assert len(errors) == 1, errors
        assert "not foreseen" not in errors[0]
        return status, errors[0]

    return call


@pytest.fixture
def stranger(tmp_path):
    """A run directory with code of its own, which leaves a trace when it is executed."""
    run = stub_run(tmp_path / "innocent", "algorithmic_copy_decimal40", "ut_algorithmic")
    (run / "taskcode").mkdir()
    (run / "taskcode" / "__init__.py").write_text(
        f"open({str(tmp_path / 'executed')!r}, 'w').close()"
    )
    path = run / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "usr_dir": str(run / "taskcode")}))
    return run


@pytest.mark.parametrize("command", READERS, ids=lambda module: module.COMMAND)
def test_no_code_of_a_run_directory_is_executed_unasked(call, stranger, tmp_path, command):
    flags = ["--examples=1"] if command is show else []
    status, line = call(command, f"--output_dir={stranger}", *flags)
    assert status == 1
    assert f"not executed unasked: add --usr_dir={stranger}/taskcode, if you trust" in line
    assert not (tmp_path / "executed").exists()


def test_neither_a_warm_start_nor_a_configuration_file_executes_it(call, stranger, tmp_path):
    flags = ["--problem=algorithmic_copy_decimal40", "--hparams_set=ut_algorithmic"]
    new = f"--output_dir={tmp_path}/new"
    assert "--usr_dir=" in call(trainer, *flags, new, f"--warm_start_from={stranger}")[1]
    status, line = call(trainer, new, f"--config={stranger}/config.json")
    assert status == 2
    assert f"add --usr_dir={stranger}/taskcode" in line
    flags = ["--html=page.html", f"--compare_with={stranger}"]
    own = stub_run(tmp_path / "own", "algorithmic_copy_decimal40", "ut_algorithmic")
    assert "--usr_dir=" in call(insights, f"--output_dir={own}", *flags)[1]
    assert not (tmp_path / "executed").exists()


def test_code_that_is_asked_for_is_executed(stranger, tmp_path):
    assert Run.load(stranger, usr_dir=str(stranger / "taskcode")).usr_dir
    assert (tmp_path / "executed").exists()
    # This process has it now.
    assert Run.load(stranger).usr_dir == str(stranger / "taskcode")


def test_a_sweep_evaluates_with_the_code_that_it_trains_with():
    words = ["--problems=a", "--hparams_sets=b", "--", "--t2t_usr_dir", "mine", "--train_steps=1"]
    evaluation = _sweep(_values([*words, "--usr_dir=x"])).commands.evaluation(Path("run"))
    assert evaluation.arguments[1:] == ("--usr_dir=mine", "--usr_dir=x")


@pytest.mark.parametrize("source", ["import sys; sys.exit(0)", "raise SystemExit('bye')"])
def test_code_that_ends_the_program_is_told(call, tmp_path, source):
    (tmp_path / "ending").mkdir()
    (tmp_path / "ending" / "__init__.py").write_text(source)
    status, line = call(trainer, "--registry_help", f"--usr_dir={tmp_path}/ending")
    assert status == 1
    assert "importing it failed with SystemExit" in line


@pytest.mark.parametrize(
    ("command", "argv", "status", "expected"),
    [
        (eval_command, ["--output_dir=~nosuchuser/run"], 1, "no user nosuchuser has one"),
        (decoder, ["--output_dir=a", f"--decode_from_file=/{'a' * 300}"], 1, "File name too long"),
        (trainer, ["--registry_help", "--usr_dir=LOOP/x"], 1, "there is no file"),
        (insights, ["--html=a.html", "--compare_checkpoint=5"], 2, "is of --compare_with"),
        (query, ["--model_version=-1"], 2, "expected a whole number from 0"),
        (eval_command, ["--output_dir=a\udce4b"], 1, "the name is not UTF-8"),
        (trainer, ["--flagfile=BINARY"], 2, "no text in UTF-8"),
        (eval_command, ["--output_dir=a", f"--lengths={'9' * 5000}"], 2, "no whole number above 0"),
        (eval_command, ["--output_dir=a", "--lengths=4,100000000"], 1, "--lengths=100000000: exp"),
    ],
)
def test_names_and_numbers_that_cannot_be(call, tmp_path, command, argv, status, expected):
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for name in ("binary", "loop"):
        argv = [word.replace(name.upper(), str(tmp_path / name)) for word in argv]
    found, line = call(command, *argv)
    assert found == status
    assert expected in line


def test_figures_that_cannot_be_written_leave_no_record(call, tmp_path):
    pytest.importorskip("matplotlib")
    digits_run(tmp_path / "run")
    (tmp_path / "file").touch()
    flags = (f"--output_dir={tmp_path / 'run'}", f"--figures={tmp_path / 'file' / 'x'}")
    status, line = call(eval_command, *flags)
    assert status == 1
    assert "--figures=" in line
    assert not (tmp_path / "run" / "evaluations.jsonl").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may enter every folder")
def test_a_folder_that_may_not_be_entered(call, tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir()
    closed.chmod(0)
    for argv in ([f"--output_dir={closed}/run"], [f"--output_dir=a --figures={closed}/x"]):
        assert call(eval_command, *argv)[0] == 1


def test_a_working_folder_that_is_gone(call, tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert "started in is gone" in call(eval_command, "--output_dir=run")[1]
    assert "is no folder" in call(report, "run")[1]


def test_without_a_home_folder_the_given_ones_do(tmp_path, monkeypatch):
    monkeypatch.delenv("HOME")
    monkeypatch.delenv("UT_TF_DATA_DIR", raising=False)
    monkeypatch.setattr("pwd.getpwuid", lambda _: {}["nobody"])
    run = stub_run(tmp_path / "run", "algorithmic_copy_decimal40", "ut_algorithmic")
    assert Run.load(run, data_dir=tmp_path, tmp_dir=tmp_path).data_dir == tmp_path
    assert Run.load(run).data_dir == Path("data")
    with pytest.raises(UserError, match="give `data_dir`"):
        Run.plan("algorithmic_copy_decimal40", "ut_algorithmic", output_dir=tmp_path / "new")


@pytest.mark.parametrize(
    "change",
    [
        {"hparams": {"model": "universal_transformer", "network": {"hidden_size": -5}}},
        {"hparams": {"model": "universal_transformer", "network": {"hidden_size": 10**400}}},
        {"hparams": {"network": 5}},
        {"hparams": {}},
        {"vocab_sha256": ["a"]},
        {"spec": {"inputs": "tokens", "targets": "tokens", "input_vocab_size": -1}},
        {"spec": {"inputs": ["tokens"], "targets": {}, "input_vocab_size": 1}},
        {"seed": 1e999},
        {"data_dir": "a\0b"},
    ],
    ids=str,
)
def test_a_damaged_configuration_is_one_sentence(call, tmp_path, change):
    run = stub_run(tmp_path / "run", "algorithmic_copy_decimal40", "ut_algorithmic")
    path = run / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    assert call(decoder, f"--output_dir={run}", "--checkpoint=last")[0] == 1


@pytest.mark.parametrize("content", ["[" * 100_000, '{"a":' * 100_000, "\udcff", "[]", "5"])
def test_a_configuration_of_another_kind_is_one_sentence(call, tmp_path, content):
    run = stub_run(tmp_path / "run", "algorithmic_copy_decimal40", "ut_algorithmic")
    (run / "config.json").write_text(content, errors="surrogateescape")
    assert call(decoder, f"--output_dir={run}")[0] == 1


@pytest.mark.parametrize(
    "change",
    [{"model": 5}, {"overrides": 5}, {"seed": 1e999}, {"hparams": []}, {"problem_args": 3}],
    ids=str,
)
def test_ut_report_leaves_out_what_is_no_run(tmp_path, capsys, change):
    run = stub_run(tmp_path / "runs" / "a", "babi_qa_task1_1k")
    stub_run(tmp_path / "runs" / "b", "babi_qa_task1_1k")
    path = run / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    report.main([str(tmp_path / "runs")])
    assert f"{run} is left out" in capsys.readouterr().err
