"""Runs: what is checked before anything is written, what config.json holds, and what a second call
may change.
"""

from __future__ import annotations

import errno
import functools
import json
import shutil
import sys
from pathlib import Path

import pytest

from tests.stub_problems import Words, create_run, narrow, register_stubs
from ut_tf import registry
from ut_tf.config.hparams import HParams
from ut_tf.errors import UserError
from ut_tf.factories import make_problem, parse_problem_args
from ut_tf.models.catalogue import MODELS
from ut_tf.problem_spec import ProblemSpec
from ut_tf.registry import Entry
from ut_tf.run import Run
from ut_tf.storage.locks import held_alone

STORED = {
    "format_version": 1,
    **dict.fromkeys(
        ("problem", "hparams_set", "model", "overrides", "data_dir", "tmp_dir"), "words"
    ),
    "problem_args": {},
    "hparams": HParams().change(hidden_size=16).resolve().to_dict(),
    "seed": 0,
    "usr_dir": None,
    "spec": None,
}


@pytest.fixture(autouse=True)
def names(monkeypatch):
    register_stubs(monkeypatch)


@pytest.fixture
def create(tmp_path):
    return functools.partial(create_run, tmp_path)


def test_a_run_is_loaded_as_it_was_created(create):
    run = create(hparams="dropout=0.2", seed=7, problem_args="limit=5")
    assert Run.load(run.output_dir) == run
    assert run.spec == ProblemSpec("tokens", "tokens", 4, 4, shared_vocab=True)
    assert run.make_problem().limit == 5
    assert (run.vocab_dir / "vocab.txt").read_text() == "a\nb"


def test_config_json_holds_everything_but_the_run_s_own_place(create):
    run = create(hparams="dropout=0.2", seed=7, problem_args="limit=5")
    text = (run.output_dir / "config.json").read_text()
    values = json.loads(text)
    assert str(run.output_dir) not in text
    assert (values["format_version"], values["problem"], values["problem_args"]) == (
        1,
        "words",
        {"limit": 5},
    )
    assert (values["hparams_set"], values["model"], values["overrides"], values["seed"]) == (
        "narrow", "universal_transformer", "dropout=0.2", 7,
    )  # fmt: skip
    assert HParams.from_dict(values["hparams"]) == narrow().change(dropout=0.2).resolve()
    assert set(values["versions"]) == {"python", "tensorflow", "keras", "ut_tf"}
    assert values["spec"] == run.spec.to_dict()


def test_a_moved_run_still_loads_also_where_its_data_is_gone(create, tmp_path, monkeypatch):
    run = create()
    moved = tmp_path / "elsewhere" / "run"
    shutil.move(run.output_dir, moved)
    loaded = Run.load(moved)
    assert (loaded.hparams, loaded.spec, loaded.data_dir) == (run.hparams, run.spec, run.data_dir)
    shutil.rmtree(run.data_dir)
    monkeypatch.setenv("UT_TF_DATA_DIR", str(tmp_path / "default"))
    assert Run.load(moved).data_dir == tmp_path / "default"
    assert Run.load(moved, data_dir=tmp_path / "mine").data_dir == tmp_path / "mine"


def test_what_the_model_does_not_take_over_and_what_has_no_effect_is_told(create, capsys):
    catalogue = sys.modules["stub_names"]
    catalogue.MODELS["transformer"] = Entry("nowhere:x", config=MODELS["transformer"].config)
    registry.hparams_sets.register("deep", lambda: HParams().change(num_steps=7))
    create(hparams_set="deep", model="transformer", hparams="learned_positions=9")
    first, second = capsys.readouterr().err.splitlines()
    assert first == ("warning: deep sets num_steps=7, which the model transformer does not have.")
    assert second.startswith("warning: learned_positions=9 has no effect with position=paper")


def test_defaults(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("UT_TF_DATA_DIR", raising=False)
    run = Run.create("words", "narrow")
    assert run.output_dir == tmp_path / "runs" / "words-narrow"
    assert (run.data_dir, run.tmp_dir) == (
        tmp_path / ".cache/ut_tf/data",
        tmp_path / ".cache/ut_tf/downloads",
    )


def test_the_same_call_goes_on_and_may_train_longer(create):
    first = create()
    assert create() == first
    longer = create(hparams="train_steps=99,eval_frequency=7,keep_checkpoint_max=2")
    assert Run.load(longer.output_dir) == longer
    assert longer.hparams.training.train_steps == 99


def _of_an_earlier_version(run):
    """Takes the fields that came after 0.4 out of a run's config.json."""
    path = run.output_dir / "config.json"
    values = json.loads(path.read_text())
    for name in ("target_start", "global_mean"):
        del values["hparams"]["network"][name]
    path.write_text(json.dumps(values))


def test_a_run_of_an_earlier_version_is_read_and_goes_on_as_it_began(create):
    rotary = "position=rotary"
    _of_an_earlier_version(create(hparams=rotary))
    with pytest.raises(UserError, match="target_start: zeros -> learned"):
        create(hparams=f"{rotary},target_start=learned")
    resumed = create(hparams=rotary)
    assert resumed.hparams.network.target_start == "zeros"
    assert Run.load(resumed.output_dir) == resumed
    # config.json is whole now: the next resumption must still find zeros.
    assert create(hparams=rotary).hparams.network.target_start == "zeros"


def test_a_run_of_an_earlier_version_keeps_the_data_that_it_had(create, monkeypatch):
    monkeypatch.setattr(Words, "earlier_arguments", {"limit": 9}, raising=False)
    run = create()
    assert run.make_problem().limit == 3
    path = run.output_dir / "config.json"
    values = json.loads(path.read_text())
    assert values.pop("data_version") == 2
    del values["sha256"]
    path.write_text(json.dumps(values))
    for _ in range(2):
        # config.json is written anew, and must say the same to the next resumption.
        resumed = create()
        assert resumed.make_problem().limit == Run.load(run.output_dir).make_problem().limit == 9
        assert "data_version" not in json.loads(path.read_text())
    with pytest.raises(UserError, match="problem_args: none -> limit=4"):
        create(problem_args="limit=4")
    path.write_text(json.dumps({**values, "data_version": 3}))
    with pytest.raises(UserError, match=r"config\.json has data of version 3, this ut_tf .* 1 to"):
        Run.load(run.output_dir)


def test_a_longer_cosine_is_another_schedule(create):
    create(hparams="schedule=cosine")
    with pytest.raises(UserError, match="decay_steps: 10 -> 99"):
        create(hparams="schedule=cosine,train_steps=99")
    assert (
        create(hparams="schedule=cosine,train_steps=99,decay_steps=10").hparams.training.train_steps
        == 99
    )


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"problem": "other_words"}, "problem: words -> other_words"),
        ({"problem_args": "limit=4"}, "problem_args: limit=3 -> limit=4"),
        ({"seed": 1}, "seed: 0 -> 1"),
        ({"hparams": "num_heads=4,dropout=0.3"}, "num_heads: 2 -> 4; dropout: 0.1 -> 0.3"),
        ({"model": "other_model"}, "model: universal_transformer -> other_model"),
    ],
)
def test_another_run_in_the_same_directory_is_refused(create, changes, expected):
    run = create(problem_args="limit=3")
    before = (run.output_dir / "config.json").read_bytes()
    with pytest.raises(UserError) as caught:
        create(**{"problem_args": "limit=3", **changes})
    assert expected in str(caught.value)
    assert (run.output_dir / "config.json").read_bytes() == before


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"problem": "wrods"}, "unknown problem 'wrods'; did you mean words"),
        ({"hparams": "drpout=0.1"}, "did you mean dropout"),
        ({"problem_args": "limt=4"}, "no argument 'limt'; did you mean limit"),
        ({"problem_args": "limit"}, "'limit' is not an assignment"),
        ({"problem_args": "limit=1.5"}, "expected a whole number"),
        ({"problem_args": "words=7"}, "`problem_args.words`=7 of problem 'words': expected a text"),
        ({"seed": -1}, "`seed`=-1: expected a whole number from 0 to 4294967295"),
    ],
)
def test_mistakes_are_told_before_anything_is_written(create, tmp_path, changes, expected):
    with pytest.raises(UserError) as caught:
        create(**changes)
    assert expected in str(caught.value)
    assert not (tmp_path / "output_dir").exists()


def test_an_output_directory_that_cannot_be_written_is_a_user_s_error(create, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written"):
        create(output_dir=tmp_path / "file" / "run")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (None, "holds no run"),
        ("{", "cannot be read"),
        ('{"seed": 1, "seed": 2}', 'the key "seed" stands twice'),
        ('{"format_version": 99}', "format version 99"),
        ('{"format_version": 1, "problem": "words"}', "lacks data_dir, hparams, hparams_set"),
        (json.dumps({**STORED, "seed": "one"}), 'seed cannot be "one"'),
        (json.dumps({**STORED, "hparams": {"network": []}}), "config.json"),
        (json.dumps({**STORED, "spec": {"colour": 1}}), "no configuration of a run"),
    ],
)
def test_a_directory_without_a_readable_run(tmp_path, content, expected):
    if content is not None:
        (tmp_path / "config.json").write_text(content)
    with pytest.raises(UserError) as caught:
        Run.load(tmp_path)
    assert expected in str(caught.value)


def test_a_changed_configuration_is_told(create, capsys):
    path = create(hparams="dropout=0.2").output_dir / "config.json"
    Run.load(path.parent)
    text = path.read_text()
    path.write_text(text.replace('"data_dir": "', '"data_dir": "/elsewhere'))
    Run.load(path.parent)
    assert capsys.readouterr().err == ""
    path.write_text(text.replace('"dropout": 0.2', '"dropout": 0.3'))
    assert Run.load(path.parent).hparams.network.dropout == 0.3
    assert "config.json is not as it was written" in capsys.readouterr().err
    values = json.loads(path.read_text())
    path.write_text(json.dumps({name: values[name] for name in values if name != "sha256"}))
    Run.load(path.parent)
    assert capsys.readouterr().err == ""


def test_a_tuple_as_argument_is_no_other_run(create):
    def chosen(tasks: tuple[int, ...] | int = (1, 2)) -> Words:
        assert isinstance(tasks, tuple | int)
        return Words()

    registry.problems.register("chosen", chosen)
    run = create("chosen", problem_args={"tasks": (1, 3)})
    assert (
        create("chosen", problem_args="tasks=1+3").problem_args
        == run.problem_args
        == {"tasks": [1, 3]}
    )
    with pytest.raises(UserError, match=r"`problem_args.tasks`=x of problem 'chosen'"):
        make_problem("chosen", {"tasks": "x"})


class Refused(Words):
    """A problem whose data cannot be written."""

    def prepare(self, *_folders: Path) -> None:
        try:
            raise OSError(errno.ENOSPC, "No space left on device")
        except OSError as error:
            raise RuntimeError("writing failed") from error


class RefusedByTensorFlow(Words):
    """The same as TensorFlow says it: the system's words in a text, and no number."""

    def prepare(self, *_folders: Path) -> None:
        raise RuntimeError("{{function_node x}} /data/file; Read-only file system [Op:Write]")


class RefusedByDatasets(Words):
    """The same as tensorflow-datasets says it where nothing at all is free."""

    def prepare(self, *_folders: Path) -> None:
        raise OSError("Not enough disk space. Needed: Unknown size")


@pytest.mark.parametrize(
    ("problem", "reason"),
    [
        (Refused, "No space left on device"),
        (RefusedByTensorFlow, "Read-only file system"),
        (RefusedByDatasets, "Not enough disk space"),
    ],
)
def test_a_disk_that_refuses_the_data_is_told_in_one_line_and_leaves_no_run(
    create, tmp_path, problem, reason
):
    registry.problems.register("refused", problem)
    with pytest.raises(UserError, match=f"cannot be prepared in .*data_dir.*{reason}"):
        create("refused", output_dir=tmp_path / "new" / "run")
    assert not (tmp_path / "new").exists()
    (tmp_path / "old").mkdir()
    with pytest.raises(UserError, match=reason):
        create("refused", output_dir=tmp_path / "old")
    assert (tmp_path / "old").is_dir()


def test_other_data_than_the_run_s_is_refused(create):
    run = create()
    (run.data_dir / "vocab.txt").write_text("a\nc")
    with pytest.raises(UserError, match="differs from"):
        Run.load(run.output_dir).prepare()
    (run.data_dir / "vocab.txt").write_text("a\nb\nc")
    with pytest.raises(UserError, match="input_vocab_size: 4 -> 5"):
        Run.load(run.output_dir).prepare()


def test_of_two_runs_that_start_at_once_the_first_is_kept(create, tmp_path):
    folders = {name: tmp_path / name for name in ("output_dir", "data_dir", "tmp_dir")}
    other = Run.plan("words", "narrow", **folders, seed=7)
    run = create()
    before = (run.output_dir / "config.json").read_bytes()
    with pytest.raises(UserError, match=r"differs \(seed: 0 -> 7\)"):
        other.start()
    changed = "hidden_size=8,num_heads=1,filter_size=9,num_steps=9,norm=pre,position=none"
    with pytest.raises(UserError, match=r"hidden_size: .* and \d more\): give another"):
        Run.plan("words", "narrow", changed, **folders, seed=7).start()
    again = Run.plan("words", "narrow", "train_steps=99", **folders)
    with held_alone(run.output_dir):
        assert again.start().hparams.training.train_steps == 99
    assert (run.output_dir / "config.json").read_bytes() == before
    again.start()
    assert (run.output_dir / "config.json").read_bytes() != before


@pytest.mark.usefixtures("create")
def test_arguments_that_a_run_does_not_have_are_refused(tmp_path):
    with pytest.raises(UserError, match="a run has no argument 'output_dri'; did you mean output"):
        Run.create("words", "narrow", output_dri=tmp_path)
    with pytest.raises(UserError, match=r"no argument 'random_seed': it takes output_dir, .*seed"):
        Run.plan("words", "narrow", random_seed=4)
    assert not (tmp_path / "runs").exists()


@pytest.mark.usefixtures("create")
def test_overrides_may_be_a_dictionary(tmp_path):
    folders = {name: tmp_path / name for name in ("output_dir", "data_dir", "tmp_dir")}
    planned = Run.plan("words", "narrow", {"train_steps": 7, "decay_steps": None}, **folders)
    assert planned.hparams.training.train_steps == 7
    assert planned.overrides == "train_steps=7,decay_steps=None"
    with pytest.raises(UserError, match="train_step"):
        Run.plan("words", "narrow", {"train_step": 7}, **folders)


def test_checkpoints_without_a_configuration_are_not_trained_on(create):
    run = create()
    (run.output_dir / "checkpoints" / "step-00000001").mkdir(parents=True)
    (run.output_dir / "config.json").unlink()
    with pytest.raises(UserError, match=r"holds checkpoints of a run, but no config\.json"):
        create(seed=3)


def test_no_partial_file_is_left(create):
    run = create()
    # As if the process had been killed while it wrote them.
    (run.output_dir / ".config.json.abcdefgh.tmp").write_text("{")
    (run.vocab_dir / ".vocab.txt.abcdefgh.tmp").write_text("a")
    run = create()
    assert [*run.vocab_sha256] == ["vocab.txt"]
    names = sorted(path.name for path in run.output_dir.iterdir())
    assert names == [".start.lock", "config.json", "vocab"]


def test_a_set_that_returns_something_else_is_told(create):
    registry.hparams_sets.register("none", lambda: None)
    with pytest.raises(UserError, match="must return HParams"):
        create(hparams_set="none")


def test_problem_args_are_read_as_json_numbers_words_and_text():
    text = "count=3, rate=0.5,on=true,off=false,nothing=null,name=copy,list=[1"
    expected = {
        "count": 3,
        "rate": 0.5,
        "on": True,
        "off": False,
        "nothing": None,
        "name": "copy",
        "list": "[1",
    }
    assert parse_problem_args(text) == expected
    assert parse_problem_args("") == {}
    with pytest.raises(UserError, match="set twice"):
        parse_problem_args("a=1,a=2")


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


def test_a_run_is_shown_in_a_line(tmp_path: Path) -> None:
    run = Run.plan("words", "narrow", "dropout=0.2", output_dir=tmp_path, seed=3)
    assert repr(run) == "Run(words, narrow, dropout=0.2, seed 3)"
