"""The precision of a run: a set's bfloat16 where it is fast, and what a resumed run keeps."""

from __future__ import annotations

import functools
import json

import pytest

from tests.stub_problems import create_run, narrow, register_stubs
from ut_tf import registry
from ut_tf.errors import UserError
from ut_tf.run import Run


@pytest.fixture(autouse=True)
def names(monkeypatch):
    register_stubs(monkeypatch)


@pytest.fixture
def create(tmp_path):
    return functools.partial(create_run, tmp_path)


@pytest.fixture
def machine(monkeypatch):
    """Sets what computes here: whether its processor multiplies bfloat16, whether it has a GPU."""
    registry.hparams_sets.register("half", lambda: narrow().change(dtype_policy="mixed_bfloat16"))

    def become(multiplies, gpu=False):
        monkeypatch.setattr("ut_tf.run.multiplies_bfloat16", lambda: multiplies)
        monkeypatch.setattr("ut_tf.run._finds_accelerator", lambda: gpu)

    return become


@pytest.mark.parametrize(
    ("multiplies", "gpu", "hparams", "used"),
    [
        (True, False, "", "mixed_bfloat16"),
        (None, False, "", "mixed_bfloat16"),
        (False, True, "", "mixed_bfloat16"),
        (False, False, "dtype_policy=mixed_bfloat16", "mixed_bfloat16"),
        (False, False, "", "float32"),
    ],
)
def test_a_set_s_bfloat16_is_used_where_it_is_fast(
    create, machine, capsys, multiplies, gpu, hparams, used
):
    machine(multiplies, gpu)
    run = create(hparams_set="half", hparams=hparams)
    assert run.hparams.training.dtype_policy == used
    values = json.loads((run.output_dir / "config.json").read_text())
    assert values["hparams"]["training"]["dtype_policy"] == used
    replaced = used == "float32"
    assert values["asked"] == ({"dtype_policy": "mixed_bfloat16"} if replaced else {})
    assert capsys.readouterr().err.count("note: training in float32: this") == replaced


def test_a_resumed_run_keeps_its_precision_and_is_told_of_a_change(create, machine, capsys):
    machine(False)
    first = create(hparams_set="half")
    capsys.readouterr()
    for multiplies in (True, False):
        machine(multiplies)
        assert create(hparams_set="half") == first
    assert not capsys.readouterr().err

    machine(True)
    assert create(hparams_set="half", output_dir=first.output_dir / "new").asked == {}
    machine(False)
    moved = create(hparams_set="half", output_dir=first.output_dir / "new")
    assert (moved.hparams, moved.asked) == (first.hparams, first.asked)
    assert capsys.readouterr().err.count("note: training in float32") == 1


def test_a_resumed_run_takes_the_precision_that_the_user_asks_for(create, machine):
    machine(False)
    create(hparams_set="half")
    run = create(hparams_set="half", hparams="dtype_policy=mixed_bfloat16")
    assert Run.load(run.output_dir).hparams.training.dtype_policy == "mixed_bfloat16"
    with pytest.raises(UserError, match="dtype_policy: mixed_bfloat16 -> mixed_float16"):
        create(hparams_set="half", hparams="dtype_policy=mixed_float16")
