"""The hyperparameters that TensorBoard compares, read back with its own readers."""

from __future__ import annotations

from typing import Any

import pytest
from tensorboard.backend.event_processing.data_provider import MultiplexerDataProvider
from tensorboard.backend.event_processing.plugin_event_multiplexer import EventMultiplexer
from tensorboard.context import RequestContext
from tensorboard.plugins.base_plugin import TBContext
from tensorboard.plugins.hparams import api_pb2, backend_context, metadata

from tests.eager import eager_functions
from tests.training.toy import toy_run
from ut_tf.run import Run
from ut_tf.training.trainer import train


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run that was trained without graphs."""
    run = toy_run(tmp_path_factory.mktemp("views") / "run", model="universal_transformer")
    with eager_functions():
        train(run, 2, log_frequency=1)
    return run


def _multiplexer(run: Run) -> Any:
    multiplexer = EventMultiplexer().AddRunsFromDirectory(str(run.output_dir / "tensorboard"))
    return multiplexer.Reload()


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
