"""Gradients written by hand, in graphs that can be freed.

``tf.custom_gradient`` registers the gradient of each call in a graph under a name of its own for as
long as the process lives, and the gradient holds its graph: memory that a process which makes
several models, or judges several checkpoints, never gets back. Here the graph holds the gradient,
and what is registered only refers to it.
"""

import functools
import weakref
from collections.abc import Callable
from typing import Any

import tensorflow as tf

# There is no public way to the gradients that are registered.
from tensorflow.python.framework import ops


def custom_gradient(function: Callable[..., Any]) -> Callable[..., Any]:
    """``tf.custom_gradient`` without keyword arguments, whose gradients live as long as the graphs
    that they are of.

    Args:
      function: tensors -> (result, gradient), as for ``tf.custom_gradient``.
    """
    traced = tf.custom_gradient(function)

    @functools.wraps(function)
    def call(*tensors: Any) -> Any:
        result = traced(*tensors)
        if not tf.executing_eagerly():
            _let_the_graph_hold_the_gradient(tf.nest.flatten(result)[0])
        return result

    return call


def _referred(gradient: Callable[..., Any]) -> Callable[..., Any]:
    """A gradient function of an operation in a graph, for as long as the graph lives."""
    reference = weakref.ref(gradient)

    def refer(operation: Any, *upstream: Any) -> Any:
        referred = reference()
        if referred is None:
            raise LookupError("the graph that this gradient belongs to is gone.")
        return referred(operation, *upstream)

    return refer


def _let_the_graph_hold_the_gradient(result: Any) -> None:
    """Takes the gradient of a call out of TensorFlow's registry.

    Args:
      result: the first tensor that the call returned.
    """
    graph = result.graph
    # Other graphs than those of functions live as long as the process as a rule.
    if not graph.building_function:
        return
    name = result.op.get_attr("_gradient_op_type").decode()
    registered = getattr(ops.gradient_registry, "_registry", {}).get(name)
    # Where it is not found there, the graph is kept, and computes the same.
    if registered is None:
        return
    gradient = registered["type"]
    registered["type"] = _referred(gradient)
    # A loop's body may be read again from what the function around it stores.
    while graph.building_function:
        graph.ut_tf_gradients = [*getattr(graph, "ut_tf_gradients", ()), gradient]
        graph = graph.outer_graph
