"""The losses that layers add: ``add_loss``, activity regularizers, and regularizers of weights. For
the terms of an update see training/objective.py.

::

    logits = model(features, training=True)
    added_losses(model)  # {"encoder/block/transition": [], ...}, of this call

Keras adds them up in ``model.losses``, which ``fit`` reads; a training loop reads them here by the
layer that they are from.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import keras
import tensorflow as tf

from ut_tf.errors import UserError


def added_losses(model: Any, without_ponder_cost: bool = False) -> dict[str, Any]:
    """Returns the losses of the model's last call, float32 [], by the path of their layer: the
    attributes that lead to it, or "model". Several losses of a layer, such as those of its steps,
    are added up.

    Args:
      model: Keras model or layer.
      without_ponder_cost: whether to leave out what a layer keeps in ``ponder_loss``, where it is
        paid for elsewhere.

    Raises:
      UserError: a loss cannot be read outside the loop that made it.
    """
    refuse_losses_of_loops(model)
    paths, trained = layer_paths(model), set(map(id, model.trainable_weights))
    losses: dict[str, list[Any]] = {}
    for layer in _layers(model):
        own = layer._get_own_losses()
        if without_ponder_cost:
            own = [loss for loss in own if loss is not getattr(layer, "ponder_loss", None)]
        own += [
            weight.regularizer(weight)
            for weight in layer._trainable_variables
            if weight.regularizer is not None and id(weight) in trained
        ]
        if own:
            losses.setdefault(paths[id(layer)], []).extend(own)
    return {
        path: tf.add_n([tf.reduce_sum(tf.cast(loss, tf.float32)) for loss in own])
        for path, own in losses.items()
    }


def refuse_losses_of_loops(layer: Any) -> None:
    """Raises UserError where a layer, or one within, has added a loss inside a loop of TensorFlow
    of its own: outside of it no graph can read it.
    """
    for part in _layers(layer):
        _refuse_unreadable(part, part._get_own_losses())


def _refuse_unreadable(layer: Any, losses: Iterable[Any]) -> None:
    if tf.executing_eagerly():
        return
    readable = set(map(id, _graphs()))
    if any(not hasattr(loss, "numpy") and id(loss.graph) not in readable for loss in losses):
        raise UserError(
            f"{type(layer).__name__} adds a loss inside a loop or condition of TensorFlow of its"
            " own, outside of which it cannot be read: return the value from there, and add the"
            " loss afterwards."
        )


class LoopLosses:
    """Carries the losses that layers add inside a loop of TensorFlow out of it.

    ::

        losses = LoopLosses([block])
        body = lambda index, added: (index + 1, losses.collected(added))  # after calling block
        index, added = tf.while_loop(condition, body, (0, losses.start()))
        losses.add(added)

    Args:
      layers: those that are called in the loop; the layers within them count, too.
    """

    def __init__(self, layers: Iterable[Any]) -> None:
        self._layers = list({id(part): part for one in layers for part in _layers(one)}.values())
        self._known = [len(layer._losses) for layer in self._layers]
        self._adding: set[int] = set()

    def start(self) -> Any:
        """Returns the sums before the loop, float32 [layers]."""
        return tf.zeros([len(self._layers)])

    def collected(self, sums: Any) -> Any:
        """Returns the sums, float32 [layers], with the losses that layers have added since the last
        call; the layers forget them.
        """
        for number, (layer, known) in enumerate(zip(self._layers, self._known, strict=True)):
            if new := layer._losses[known:]:
                _refuse_unreadable(layer, new)
                del layer._losses[known:]
                self._adding.add(number)
                total = tf.add_n([tf.reduce_sum(tf.cast(loss, tf.float32)) for loss in new])
                sums += total * tf.one_hot(number, len(self._layers))
        return sums

    def add(self, sums: Any) -> None:
        """Adds the sums of a loop that has ended, float32 [layers], to the layers' losses."""
        for number in sorted(self._adding):
            self._layers[number].add_loss(sums[number])


def layer_paths(model: Any) -> dict[int, str]:
    """Returns the path of each layer of a model by the layer's id.

    A name that Keras gave, such as dense_7, depends on what a process made before: it stands only
    where no attribute leads to the layer.
    """
    paths = {id(model): ""}
    below = [model]
    while below:
        layer = below.pop(0)
        names = dict(_attributes(layer))
        for part in layer._layers:
            if id(part) not in paths:
                paths[id(part)] = f"{paths[id(layer)]}/{names.get(id(part), part.name)}"
                below.append(part)
    return {key: path.lstrip("/") or "model" for key, path in paths.items()}


def _layers(layer: Any) -> list[Any]:
    layers: list[Any] = layer._flatten_layers()
    return layers


def _attributes(layer: Any) -> Iterator[tuple[int, str]]:
    """The attribute that leads to each layer directly within a layer, by the layer's id."""
    for name, value in vars(layer).items():
        if isinstance(value, keras.layers.Layer):
            yield id(value), name.lstrip("_")
        elif isinstance(value, list | tuple) and not name.startswith("_"):
            yield from ((id(part), f"{name}/{number}") for number, part in enumerate(value))


def _graphs() -> Iterator[Any]:
    """The graphs whose tensors can be read: the current one and those around it."""
    graph = tf.compat.v1.get_default_graph()
    while graph is not None:
        yield graph
        graph = getattr(graph, "outer_graph", None)
