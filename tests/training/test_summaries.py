"""What TensorBoard shows besides scalars, read back with its own readers; experiment trackers."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import tensorflow as tf
from tensorboard.backend.event_processing.data_provider import MultiplexerDataProvider
from tensorboard.backend.event_processing.plugin_event_multiplexer import EventMultiplexer
from tensorboard.context import RequestContext
from tensorboard.plugins.base_plugin import TBContext
from tensorboard.plugins.hparams import api_pb2, backend_context, metadata

from tests.eager import eager_functions
from tests.training.toy import ToyClass, ToyCopy, lines, toy_run
from ut_tf import registry
from ut_tf.bin import trainer
from ut_tf.data.text.codec import TextCodec
from ut_tf.errors import UserError
from ut_tf.problem_spec import ProblemSpec
from ut_tf.problems.algorithmic.codec import DigitCodec
from ut_tf.run import Run
from ut_tf.training import trackers
from ut_tf.training.logs import RunLog
from ut_tf.training.summaries import WrittenExamples, flat_hparams, trial_name
from ut_tf.training.trackers import make_tracker
from ut_tf.training.trainer import train


class ToyDigits(ToyCopy):
    """The toy problem with a text form."""

    name = "toy_digits"

    def text_codec(self, vocab_dir: Path) -> TextCodec:
        del vocab_dir
        return DigitCodec("copy", base=5)


class ToyAnswers(ToyClass):
    """The toy problem of classes with a text form."""

    name = "toy_answers"

    def text_codec(self, vocab_dir: Path) -> TextCodec:
        del vocab_dir
        return Answers()


class Answers(TextCodec):
    """Symbols are their numbers, classes are "no" and "yes"."""

    def tokens(self, features: dict[str, Any]) -> Any:
        return tf.where(features["inputs"] > 1, tf.strings.as_string(features["inputs"]), "")

    def decode(self, outputs: Any) -> Any:
        return tf.gather(["no", "yes"], outputs)


class ToyLanguage(ToyDigits):
    """Digits without inputs."""

    name = "toy_language"

    def spec(self, data_dir: Path) -> ProblemSpec:
        return dataclasses.replace(super().spec(data_dir), inputs="none")


for toy in (ToyDigits, ToyAnswers, ToyLanguage):
    registry.problems.register(toy.name, toy)


class Tracked:
    """Stands in for the package wandb."""

    def __init__(self) -> None:
        self.begun: list[dict[str, Any]] = []
        self.logged: list[tuple[int, dict[str, float]]] = []
        self.finished = 0

    def init(self, **options: Any) -> Any:
        self.begun.append(options)
        return SimpleNamespace(id=options["id"] or "new", log=self._log, finish=self._finish)

    def _log(self, values: dict[str, float], step: int) -> None:
        self.logged.append((step, values))

    def _finish(self) -> None:
        self.finished += 1


@pytest.fixture(scope="module")
def tracked() -> Tracked:
    return Tracked()


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, tracked: Tracked) -> Iterator[Run]:
    """A run that was trained with a tracker, without graphs."""
    run = toy_run(
        tmp_path_factory.mktemp("views") / "run", "toy_digits", model="universal_transformer"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "wandb", tracked)
        patch.setattr(
            "ut_tf.training.trackers.importlib.util.find_spec", lambda _name: SimpleNamespace()
        )
        with eager_functions():
            train(run, 2, log_frequency=1, tracker="wandb")
        yield run


def _multiplexer(run: Run) -> Any:
    multiplexer = EventMultiplexer().AddRunsFromDirectory(str(run.output_dir / "tensorboard"))
    return multiplexer.Reload()


@pytest.mark.slow
def test_tensorboard_shows_examples_and_the_graph(tmp_path: Path) -> None:
    run = toy_run(tmp_path / "run", "toy_digits", model="universal_transformer")
    train(run, 10, log_frequency=5, tensorboard=["examples", "figures", "graph"])
    multiplexer = _multiplexer(run)
    (name,) = multiplexer.Runs()
    texts = multiplexer.Tensors(name, "eval/examples")
    assert [text.step for text in texts] == [10]
    shown = tf.make_ndarray(texts[-1].tensor_proto).item().decode()
    header, _, *rows = shown.splitlines()
    assert header == "| input | target | output |"
    targets = [row.split("|")[2].strip() for row in rows]
    assert len(rows) == 4 and all(target.isdigit() for target in targets)
    inputs = [row.split("|")[1].strip() for row in rows]
    assert [text.replace(" ", "").replace("<end>", "") for text in inputs] == targets
    graph = multiplexer.Graph(name)
    nodes = {node.name for node in graph.node}
    nodes |= {node.name for function in graph.library.function for node in function.node_def}
    layers = {re.sub(r"_\d+$", "", part) for node in nodes for part in node.split("/")}
    named = {"encoder", "decoder", "block", "self_attention", "transition"}
    assert named <= layers


def test_tensorboard_shows_ponder_times_over_the_steps(tmp_path: Path) -> None:
    log = RunLog(tmp_path, 0)
    log.pondering(1)
    for step in (5, 10):
        log.train(step, {"loss": 0.5}, [0.0, 3.0, 7.0])
    log.pondering(10)
    log.close()
    multiplexer = EventMultiplexer().AddRunsFromDirectory(str(tmp_path / "tensorboard")).Reload()
    (image,) = multiplexer.Tensors(".", "eval/ponder_time_over_steps")
    width, height, png = image.tensor_proto.string_val
    assert image.step == 10
    assert tf.image.decode_png(png).shape[:2] == (int(height), int(width))


def test_tensorboard_compares_hyperparameters(trained: Run) -> None:
    provider = MultiplexerDataProvider(_multiplexer(trained), str(trained.output_dir))
    context = backend_context.Context(TBContext(data_provider=provider))
    ctx = RequestContext()
    tags = context.hparams_metadata(ctx, experiment_id="")
    experiment = context.experiment_from_metadata(
        ctx, "", include_metrics=True, hparams_run_to_tag_to_content=tags, data_provider_hparams=[]
    )
    kinds = {info.name: info.type for info in experiment.hparam_infos}
    assert kinds["num_heads"] == api_pb2.DATA_TYPE_FLOAT64
    assert kinds["halting"] == api_pb2.DATA_TYPE_STRING
    metrics = {info.name.tag for info in experiment.metric_infos}
    assert {"eval/loss", "train/loss"} <= metrics
    (tag,) = (tags[name] for name in tags)
    session = metadata.parse_session_start_info_plugin_data(tag[metadata.SESSION_START_INFO_TAG])
    assert session.group_name == str(trained.output_dir)


def test_columns_are_those_of_values_that_are_read_and_trials_are_called_by_their_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fixed = toy_run(tmp_path / "runs" / "fixed", model="universal_transformer")
    halting = toy_run(tmp_path / "halting", model="universal_transformer", halting="basic")
    idle = {"act_loss_weight", "act_max_steps", "ponder_prior", "curriculum_start"}
    assert idle.isdisjoint(flat_hparams(fixed))
    assert flat_hparams(halting)["act_loss_weight"] == 0.01
    assert {"num_steps", "dropout", "learning_rate", "halting"} <= flat_hparams(fixed).keys()
    assert trial_name(fixed) == str(tmp_path / "runs" / "fixed")
    monkeypatch.chdir(tmp_path)
    assert (trial_name(fixed), trial_name(halting)) == ("runs/fixed", "halting")


def test_a_tracker_gets_all_values_and_a_resumed_training_goes_on_in_it(
    trained: Run, tracked: Tracked
) -> None:
    (first,) = tracked.begun
    assert first["id"] is None and first["name"] == "run" and first["config"]["num_steps"] == 2
    losses = {
        step: values["train/loss"] for step, values in tracked.logged if "train/loss" in values
    }
    assert losses == {line["step"]: line["loss"] for line in lines(trained, "train")}
    assert [step for step, values in tracked.logged if "eval/loss" in values] == [2]
    assert tracked.finished == 1
    make_tracker("wandb", trained)
    assert tracked.begun[-1]["id"] == "new"


@pytest.mark.usefixtures("eager")
def test_classes_and_texts_without_inputs_are_shown_as_well(tmp_path: Path) -> None:
    rows = {}
    for name in ("toy_answers", "toy_language"):
        run = toy_run(tmp_path / name, name, model="transformer")
        model, problem = run.make_model(), run.make_problem()
        _, _, *lines = WrittenExamples(model, problem, run).markdown().splitlines()
        rows[name] = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    for inputs, target, output in rows["toy_answers"]:
        first, second, *_ = map(int, inputs.split())
        assert target == ("yes" if first > second else "no")
        assert output in ("yes", "no")
    for inputs, target, output in rows["toy_language"]:
        assert not inputs and target.isdigit() and len(output) <= len(target) + 1


def test_mlflow_keeps_what_it_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri((tmp_path / "mlruns").as_uri())
    run = toy_run(tmp_path / "run", model="universal_transformer")
    for step in (1, 2):
        tracker = make_tracker("mlflow", run)
        tracker.log(step, {"train/loss": 0.5 / step, "train/gradient_norm": float("inf")})
        # One name is the beginning of the other, which no file and folder can be.
        tracker.log(step, {"eval/ponder_time": 2.0, "eval/ponder_time/question": 3.0})
        tracker.close()
    (identifier,) = json.loads((run.output_dir / "tracker.json").read_text()).values()
    kept = mlflow.get_run(identifier)
    assert kept.data.params["num_heads"] == "2"
    pondering = {"eval/ponder_time": 2.0, "eval/ponder_time.question": 3.0}
    assert kept.data.metrics == {"train/loss": 0.25, **pondering}


def test_what_cannot_be_shown_is_refused_before_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = toy_run(tmp_path, model="universal_transformer")
    with pytest.raises(UserError, match="no text form"):
        WrittenExamples(run.make_model(), run.make_problem(), run)
    names = ["--problem=babi_sim", "--hparams_set=ut_babi", f"--output_dir={tmp_path}/x"]
    assert trainer.main([*names, "--tensorboard=graphs"]) == 1
    assert "did you mean graph" in capsys.readouterr().err
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "wandb" else found(name)
    )
    assert trainer.main([*names, "--tracker=wandb"]) == 1
    assert (
        "--tracker=wandb needs wandb, which is not installed: pip install wandb, or"
        in capsys.readouterr().err
    )
    assert not (tmp_path / "x").exists()


def test_a_tracker_that_cannot_begin_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def begin(_run: Run) -> None:
        raise ConnectionError("no route\nto the host")

    monkeypatch.setitem(trackers._TRACKERS, "json", begin)
    message = r"`tracker`=json cannot begin \(ConnectionError: no route to the host\): check"
    with pytest.raises(UserError, match=message):
        make_tracker("json", toy_run(tmp_path / "run"))
