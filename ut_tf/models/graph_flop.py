"""The operations of a call, counted in its graph.

::

    graph = tf.function(model).get_concrete_function(features).graph
    graph_flop(graph, LoopSteps())                               # as often as the graph says
    graph_flop(graph, LoopSteps(taken={"encoder/while": 3.5}))    # a loop of 3.5 steps on average
"""

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import tensorflow as tf

_LOOPS = ("While", "StatelessWhile")
_OF_PART = re.compile(r"/(encoder|decoder)(?:_\d+)?/(recurrent_)?")
_PRODUCTS = ("MatMul", "BatchMatMul", "BatchMatMulV2")
# The input or output that is the filter, [height, width, channels, ...], and the other side.
_CONVOLUTIONS: dict[str, Callable[[Any], tuple[Any, Any]]] = {
    "Conv2D": lambda operation: (operation.inputs[1], operation.outputs[0]),
    "Conv2DBackpropInput": lambda operation: (operation.inputs[1], operation.inputs[2]),
    "Conv2DBackpropFilter": lambda operation: (operation.outputs[0], operation.inputs[2]),
}


class LoopSteps(NamedTuple):
    """How often the bodies of a graph's loops run.

    Fields:
      bounded: of loops whose bound is in the graph; None: as often as that.
      unbounded: of all others.
      taken: of those that were counted, by name.
    """

    bounded: float | None = None
    unbounded: float = 1.0
    taken: Mapping[str, float] = {}


@contextlib.contextmanager
def computing_all(model: Any) -> Iterator[None]:
    """A context in which no step of a keras.Model leaves positions out."""
    skipping = [layer for layer in model._flatten_layers() if hasattr(layer, "halting_compute")]
    before = [layer.halting_compute for layer in skipping]
    try:
        for layer in skipping:
            layer.halting_compute = "dense"
        yield
    finally:
        for layer, compute in zip(skipping, before, strict=True):
            layer.halting_compute = compute


def call_flop(model: Any, features: Mapping[str, Any], steps: Mapping[str, float]) -> float:
    """Returns the FLOP of a call of a Universal Transformer at inference.

    Args:
      model: its keras.Model, or what calls one.
      features: tf.TensorSpec by name, of known shapes.
      steps: at which a position of the "encoder" and of the "decoder" is computed on average, where
        that is no fixed number.
    """
    call = tf.function(
        lambda features: model(features, training=False, return_details=True), autograph=False
    )
    with computing_all(model):
        graph = call.get_concrete_function(dict(features)).graph
    sides = {"encoder": "inputs", "decoder": "targets"}
    taken = {}
    for loop in loops_of(graph):
        match = _OF_PART.search(loop.name)
        assert match is not None, loop.name
        part, over_positions = match.groups()
        taken[loop.name] = features[sides[part]].shape[1] if over_positions else steps[part]
    return graph_flop(graph, LoopSteps(taken=taken))


def graph_flop(graph: Any, steps: LoopSteps) -> float:
    """Returns the FLOP of the matrix products and convolutions in a graph and in the functions that
    it calls; of a choice among functions, that of the largest.

    Args:
      graph: tf.Graph, of known shapes.
      steps: of its loops.
    """

    def inside(function: Any) -> float:
        return graph_flop(graph._get_function(function.name).graph, steps)

    total = 0.0
    for operation in graph.get_operations():
        kind = operation.type
        if kind in _PRODUCTS:
            name = "transpose_a" if kind == "MatMul" else "adj_x"
            inner = operation.inputs[0].shape[-2 if operation.get_attr(name) else -1]
            total += 2.0 * (operation.outputs[0].shape.num_elements() or 0) * (inner or 0)
        elif kind in _CONVOLUTIONS:
            window, result = _CONVOLUTIONS[kind](operation)
            sizes = (window.shape[:3].num_elements(), result.shape.num_elements())
            total += 2.0 * (sizes[0] or 0) * (sizes[1] or 0)
        elif kind in ("PartitionedCall", "StatefulPartitionedCall"):
            total += inside(operation.get_attr("f"))
        elif kind in ("If", "StatelessIf"):
            branches = (operation.get_attr(name) for name in ("then_branch", "else_branch"))
            total += max(map(inside, branches))
        elif kind in ("Case", "StatelessCase"):
            total += max(map(inside, operation.get_attr("branches")))
        elif kind in _LOOPS:
            total += _repeats(operation, steps) * inside(operation.get_attr("body"))
    return total


def _repeats(loop: Any, steps: LoopSteps) -> float:
    bound = loop_bound(loop)
    if loop.name in steps.taken or bound is None:
        return steps.taken.get(loop.name, steps.unbounded)
    return bound if steps.bounded is None else steps.bounded


def loop_bound(loop: Any) -> int | None:
    """Returns how often a loop's body runs at most, where the graph says it; that of a loop for the
    gradient is that of the loop whose gradient it is.
    """
    bound = tf.get_static_value(loop.inputs[1])
    return None if bound is None or bound < 0 else int(bound)


def loops_of(graph: Any) -> list[Any]:
    """Returns the loops in a graph, without those in what it calls."""
    return [operation for operation in graph.get_operations() if operation.type in _LOOPS]
