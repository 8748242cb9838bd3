"""What TensorBoard shows besides scalars, read back with its own readers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf
from tensorboard.backend.event_processing.data_provider import MultiplexerDataProvider
from tensorboard.backend.event_processing.plugin_event_multiplexer import EventMultiplexer
from tensorboard.context import RequestContext
from tensorboard.plugins.base_plugin import TBContext
from tensorboard.plugins.hparams import api_pb2, backend_context, metadata

from tests.eager import eager_functions
from tests.training.toy import ToyCopy, toy_run
from ut_tf import registry
from ut_tf.bin import trainer
from ut_tf.data.text.codec import TextCodec
from ut_tf.errors import UserError
from ut_tf.problems.algorithmic.codec import DigitCodec
from ut_tf.run import Run
from ut_tf.training.summaries import WrittenExamples
from ut_tf.training.trainer import train


class ToyDigits(ToyCopy):
    """The toy problem with a text form."""

    name = "toy_digits"

    def text_codec(self, vocab_dir: Path) -> TextCodec:
        del vocab_dir
        return DigitCodec("copy", base=5)


registry.problems.register(ToyDigits.name, ToyDigits)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run that was trained without graphs."""
    run = toy_run(
        tmp_path_factory.mktemp("views") / "run", "toy_digits", model="universal_transformer"
    )
    with eager_functions():
        train(run, 2, log_frequency=1)
    return run


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


def test_what_cannot_be_shown_is_refused_before_training(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = toy_run(tmp_path, model="universal_transformer")
    with pytest.raises(UserError, match="no text form"):
        WrittenExamples(run.make_model(), run.make_problem(), run)
    names = ["--problem=babi_sim", "--hparams_set=ut_babi", f"--output_dir={tmp_path}/x"]
    assert trainer.main([*names, "--tensorboard=graphs"]) == 1
    assert "did you mean graph" in capsys.readouterr().err
    assert not (tmp_path / "x").exists()
