"""--config: a file in the place of flags."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ut_tf.bin.frame.config_file import parse_with_config
from ut_tf.bin.frame.flags import FlagError
from ut_tf.bin.trainer_flags import COMMAND, DESCRIPTION, FLAGS, checked_run

FILE = """
problem: babi_sim
hparams_set: ut_act_babi
random_seed: 7
problem_args: {train_questions: 100, supporting_facts: [1, 2]}
hparams:
  num_steps: 3
  dropout: 0.25
  jit_compile: false
output_dir: runs/mine
train_steps: 20
"""


def written(folder: Path, content: str, name: str = "run.yaml") -> str:
    (folder / name).write_text(content)
    return f"--config={folder / name}"


def test_a_file_says_what_flags_would(tmp_path: Path) -> None:
    config = written(tmp_path, FILE)
    run = checked_run([config])
    flags = [
        *("--problem=babi_sim", "--hparams_set=ut_act_babi", "--random_seed=7"),
        "--problem_args=train_questions=100,supporting_facts=1+2",
        *("--hparams=num_steps=3,dropout=0.25,jit_compile=false", "--output_dir=runs/mine"),
    ]
    assert run == checked_run(flags)
    assert parse_with_config(COMMAND, DESCRIPTION, FLAGS, [config]).train_steps == 20


def test_flags_win_also_over_single_hyperparameters(tmp_path: Path) -> None:
    config = written(tmp_path, FILE)
    words = [config, "--random_seed=1", "--hparams=dropout=0.5,num_heads=2", "--output_dir=other"]
    run = checked_run(words)
    network = run.hparams.network
    assert (network.dropout, network.num_heads, network.num_steps) == (0.5, 2, 3)  # type: ignore[attr-defined]
    assert (run.seed, run.output_dir) == (1, Path("other").absolute())


def test_the_config_of_a_run_trains_the_same_elsewhere(tmp_path: Path) -> None:
    flags = ["--problem=babi_sim", "--hparams_set=ut_babi", "--random_seed=3"]
    run = checked_run([*flags, "--hparams=num_steps=3", "--problem_args=train_questions=100"])
    content = {
        "format_version": 1,
        "problem": run.problem,
        "problem_args": run.problem_args,
        "hparams_set": run.hparams_set,
        "overrides": run.overrides,
        "model": run.hparams.model,
        "hparams": run.hparams.to_dict(),
        "seed": run.seed,
        "data_dir": str(run.data_dir),
        "tmp_dir": str(run.tmp_dir),
        "usr_dir": None,
        "spec": None,
    }
    config = written(tmp_path, json.dumps(content), "config.json")
    assert checked_run([config, f"--output_dir={run.output_dir}"]) == run


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("problm: babi_sim", r"unknown name 'problm'; did you mean problem"),
        ("dropout: 0.1", r"'dropout': it is a hyperparameter; write it below hparams"),
        ("problem: [", "cannot be read"),
        ("seed: 1\nseed: 2", 'the key "seed" stands twice'),
        ("hparams: {dropout: 0, dropout: 1}", 'the key "dropout" stands twice'),
        ("- babi_sim", "holds no values by name"),
        ("hparams: num_steps", "hparams: 'num_steps' is not an assignment"),
        ("hparams: {num_steps: {a: 1}}", r"hparams, num_steps: {'a': 1} is no value"),
        ("config: other.yaml", "unknown name 'config'"),
        ("train_steps: many", "--train_steps=many: expected a whole number"),
    ],
)
def test_mistakes_in_the_file_are_told(content: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(FlagError, match=message):
        parse_with_config(COMMAND, DESCRIPTION, FLAGS, [written(tmp_path, content)])
