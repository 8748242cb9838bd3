"""What TensorBoard shows besides scalars, read back with its own readers; experiment trackers."""

from __future__ import annotations

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
from tests.training.toy import ToyCopy, lines, toy_run
from ut_tf import registry
from ut_tf.bin import trainer
from ut_tf.data.text.codec import TextCodec
from ut_tf.errors import UserError
from ut_tf.problems.algorithmic.codec import DigitCodec
from ut_tf.run import Run
from ut_tf.training.summaries import WrittenExamples
from ut_tf.training.trackers import make_tracker
from ut_tf.training.trainer import train


class ToyDigits(ToyCopy):
    """The toy problem with a text form."""

    name = "toy_digits"

    def text_codec(self, vocab_dir: Path) -> TextCodec:
        del vocab_dir
        return DigitCodec("copy", base=5)


registry.problems.register(ToyDigits.name, ToyDigits)


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


@pytest.mark.slow
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


@pytest.mark.slow
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
