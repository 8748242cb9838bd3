"""The counted operations are those of the products in the graph of a training step."""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow as tf

from ut_tf.config.hparams import HParams
from ut_tf.factories import make_model
from ut_tf.planning.operations import BatchShape, update_flop
from ut_tf.planning.sizes import Sizes
from ut_tf.problem_spec import ProblemSpec

TRANSLATION = ProblemSpec("tokens", "tokens", 7, 7, shared_vocab=True)
WORDS = ProblemSpec("tokens", "word", 7, 7)
SMALL = "hidden_size=8,filter_size=12,num_heads=2,norm=pre"


def _graph_flop(graph: Any) -> int:
    """The operations of the matrix products in a graph and in the functions that it calls."""
    total = 0
    for operation in graph.get_operations():
        if operation.type in ("MatMul", "BatchMatMul", "BatchMatMulV2"):
            name = "transpose_a" if operation.type == "MatMul" else "adj_x"
            inner = operation.inputs[0].shape[-2 if operation.get_attr(name) else -1]
            total += 2 * operation.outputs[0].shape.num_elements() * inner
        elif operation.type in ("PartitionedCall", "StatefulPartitionedCall"):
            function = graph._get_function(operation.get_attr("f").name)
            total += _graph_flop(function.graph)
    return total


@pytest.mark.parametrize(
    ("model", "overrides", "spec"),
    [
        ("transformer", "num_layers=2", TRANSLATION),
        ("universal_transformer", "num_steps=2,recurrence=gru", WORDS),
        *(
            pytest.param(model, f"num_steps=2{overrides}", TRANSLATION, marks=pytest.mark.slow)
            for model, overrides in (
                ("universal_transformer", ",mix_layers_before=1"),
                ("universal_transformer", ",head_size=5"),
                ("universal_transformer", ",recurrence=skip,recurrence_layers=2"),
                ("universal_transformer", ",coordinate_form=concat"),
                ("conditional_universal_transformer", ""),
            )
        ),
    ],
)
def test_operations_are_those_of_the_graph(model: str, overrides: str, spec: ProblemSpec) -> None:
    hparams = HParams(model).override(f"{SMALL},{overrides}").resolve()
    network = make_model(hparams, spec, seed=0)
    features = {"inputs": tf.constant([[2, 3, 4, 5, 1]] * 3)}
    if spec.targets == "tokens":
        features["targets"] = tf.constant([[2, 3, 4, 1]] * 3)

    def gradients() -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.square(network(features, training=True)))
        return tape.gradient(loss, [weight.value for weight in network.trainable_variables])

    graph = tf.function(gradients, autograph=False).get_concrete_function().graph
    batch = BatchShape(3, 5, 4 if spec.targets == "tokens" else 0)
    counted = update_flop(Sizes.of(model, hparams.network, spec), batch)
    # The graph leaves out the gradient of the embedded input of the first layer alone.
    assert counted == pytest.approx(_graph_flop(graph), rel=0.02)
