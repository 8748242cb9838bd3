"""The network of pytorch_universal_transformer.py in JAX, as a user of JAX would write it: pure
functions of a dictionary of parameters, one compiled update for each shape, Adam by optax.

As a command it trains on batches from a file (shared.py). Random bits come from the generator of
the hardware's instruction ("rbg"), the fastest that JAX has on a CPU.
"""

import json
import os
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import optax
from shared import LEARNING_RATE, Network, answer, positions, stored_batches

Array = jax.Array
Parameters = dict[str, Any]


class Dropout:
    """Dropout whose random numbers follow from one key of the update, each call its own."""

    def __init__(self, key: Array) -> None:
        self._key, self._calls = key, 0

    def __call__(self, x: Array, rate: float) -> Array:
        if not rate:
            return x
        self._calls += 1
        kept = jax.random.bernoulli(jax.random.fold_in(self._key, self._calls), 1.0 - rate, x.shape)
        return jnp.where(kept, x / (1.0 - rate), 0.0).astype(x.dtype)


def initial_parameters(network: Network, vocab_size: int) -> Parameters:
    """New parameters, Glorot uniform; the table of embeddings normal."""
    width, keys = network.hidden_size, iter(jax.random.split(jax.random.key(0), 32))
    glorot = jax.nn.initializers.glorot_uniform()

    def matrix(rows: int, columns: int) -> Array:
        return glorot(next(keys), (rows, columns))

    def norm() -> Parameters:
        return {"scale": jnp.ones(width), "shift": jnp.zeros(width)}

    def stack_parameters(over_memory: bool) -> Parameters:
        parameters: Parameters = {
            "self": {"project": matrix(width, 3 * width), "output": matrix(width, width)},
            "inner": {"kernel": matrix(width, network.filter_size)},
            "outer": {"kernel": matrix(network.filter_size, width)},
            "norms": [norm() for _ in range(3 if over_memory else 2)],
        }
        parameters["inner"]["bias"] = jnp.zeros(network.filter_size)
        parameters["outer"]["bias"] = jnp.zeros(width)
        if over_memory:
            names = {"query": width, "key_value": 2 * width, "output": width}
            parameters["memory"] = {name: matrix(width, size) for name, size in names.items()}
        if network.norm != "post":
            parameters["final_norm"] = norm()
        if network.step_encoding == "learned":
            shape = (network.num_steps, width)
            parameters["steps"] = jax.random.normal(next(keys), shape) * width**-0.5
        return parameters

    table = jax.random.normal(next(keys), (vocab_size, width)) * width**-0.5
    return {"table": table, "encoder": stack_parameters(False), "decoder": stack_parameters(True)}


def layer_norm(parameters: Parameters, x: Array, epsilon: float) -> Array:
    """The norm over the last axis, in float32."""
    normed = jax.nn.standardize(x.astype(jnp.float32), epsilon=epsilon)
    return (normed * parameters["scale"] + parameters["shift"]).astype(x.dtype)


def affine(parameters: Parameters, x: Array) -> Array:
    """x W + b, [..., rows] -> [..., columns]."""
    return x @ parameters["kernel"] + parameters["bias"]


def split(x: Array, heads: int) -> Array:
    """[batch, length, width] -> [batch, length, heads, head_size]."""
    return x.reshape(*x.shape[:-1], heads, -1)


def attend(
    queries: Array, keys: Array, values: Array, bias: Array, network: Network, dropout: Dropout
) -> Array:
    """Attention (float32 softmax): [batch, length, heads, head_size] -> [batch, length, width]."""
    scores = jnp.einsum("bqhd,bkhd->bhqk", queries, keys) * queries.shape[-1] ** -0.5
    weights = jax.nn.softmax(scores.astype(jnp.float32) + bias).astype(values.dtype)
    weights = dropout(weights, network.attention_dropout)
    mixed = jnp.einsum("bhqk,bkhd->bqhd", weights, values)
    return mixed.reshape(*mixed.shape[:2], -1)


def stack(
    parameters: Parameters,
    network: Network,
    x: Array,
    signal: Array,
    bias: Array,
    dropout: Dropout,
    encoded: tuple[Array, Array] | None = None,
) -> Array:
    """The states after all steps of the encoder, or of the decoder, which attends over `encoded`:
    states [batch, input_length, hidden_size] and bias [batch, 1, 1, input_length].
    """
    heads, width = network.num_heads, network.hidden_size
    steps = jnp.asarray(positions(network.position, network.num_steps, width), x.dtype)
    steps = parameters["steps"] * width**0.5 if "steps" in parameters else steps
    is_post = network.norm == "post"

    def sublayer(number: int, function: Callable[[Array], Array], x: Array) -> Array:
        normed = partial(layer_norm, parameters["norms"][number], epsilon=network.norm_epsilon)
        if is_post:
            return normed(x + dropout(function(x), network.dropout))
        return x + dropout(function(normed(x)), network.dropout)

    def self_attention(y: Array) -> Array:
        projected = jnp.split(y @ parameters["self"]["project"], 3, -1)
        mixed = attend(*(split(part, heads) for part in projected), bias, network, dropout)
        return mixed @ parameters["self"]["output"]

    def transition(y: Array) -> Array:
        hidden = jax.nn.relu(affine(parameters["inner"], y))
        return affine(parameters["outer"], dropout(hidden, network.relu_dropout))

    def memory_attention(y: Array) -> Array:
        queries = split(y @ parameters["memory"]["query"], heads)
        mixed = attend(queries, *remembered, memory_bias, network, dropout)
        return mixed @ parameters["memory"]["output"]

    if encoded is not None:
        projected = jnp.split(encoded[0] @ parameters["memory"]["key_value"], 2, -1)
        remembered, memory_bias = [split(part, heads) for part in projected], encoded[1]
    for step in range(network.num_steps):
        x = sublayer(0, self_attention, x + signal + steps[step])
        if encoded is not None:
            x = sublayer(1, memory_attention, x)
        x = sublayer(-1, transition, x)
    return x if is_post else layer_norm(parameters["final_norm"], x, network.norm_epsilon)


def logits(
    parameters: Parameters, network: Network, inputs: Array, targets: Array, dropout: Dropout
) -> Array:
    """Logits [batch, target_length, vocab_size] of inputs and targets, int32 [batch, length]."""
    table, width = parameters["table"], network.hidden_size

    def embed(ids: Array) -> tuple[Array, Array]:
        states = table[ids] * width**0.5 * (ids != 0)[..., None]
        signal = jnp.asarray(positions(network.position, ids.shape[1], width), states.dtype)
        return dropout(states.astype(table.dtype), network.dropout), signal

    padding = jnp.where(inputs == 0, -1e9, 0.0)[:, None, None, :]
    encoded = stack(parameters["encoder"], network, *embed(inputs), padding, dropout)
    later = jnp.triu(jnp.full((targets.shape[1],) * 2, -1e9), 1)
    previous = jnp.pad(targets[:, :-1], ((0, 0), (1, 0)))
    states = stack(
        parameters["decoder"], network, *embed(previous), later, dropout, (encoded, padding)
    )
    return states @ table.T


def smoothed_loss(predicted: Array, targets: Array, label_smoothing: float) -> Array:
    """The mean cross entropy of the targets that are not padding; the other V - 1 symbols share the
    probability `label_smoothing`.
    """
    log_probabilities = jax.nn.log_softmax(predicted.astype(jnp.float32))
    share = label_smoothing / (predicted.shape[-1] - 1)
    picked = jnp.take_along_axis(log_probabilities, targets[..., None], -1)[..., 0]
    losses = -(1.0 - label_smoothing - share) * picked - share * log_probabilities.sum(-1)
    mask = targets != 0
    return jnp.where(mask, losses, 0.0).sum() / mask.sum()


class Training:
    """The training of a new network on batches in memory.

    Args:
      task: as in pytorch_universal_transformer.py, without threads, which XLA takes as it finds
        cores.
    """

    def __init__(self, task: dict[str, Any]) -> None:
        network, dtype = Network(**task["network"]), jnp.float32
        if task["is_bfloat16"]:
            dtype = jnp.bfloat16
        self.batches = stored_batches(task)
        self._ids = [tuple(jnp.asarray(ids, jnp.int32) for ids in one[1:]) for one in self.batches]
        self._parameters = initial_parameters(network, task["vocab_size"])
        beta1, beta2, epsilon = task["adam"]
        optimizer = optax.adam(LEARNING_RATE, beta1, beta2, epsilon)
        if task["clip_norm"]:
            optimizer = optax.chain(optax.clip_by_global_norm(task["clip_norm"]), optimizer)
        self._state = optimizer.init(self._parameters)
        self._key = jax.random.key(0, impl="rbg")

        def loss(parameters: Parameters, inputs: Array, targets: Array, key: Array) -> Array:
            computed = jax.tree.map(lambda value: value.astype(dtype), parameters)
            predicted = logits(computed, network, inputs, targets, Dropout(key))
            return smoothed_loss(predicted, targets, task["label_smoothing"])

        @partial(jax.jit, donate_argnums=(0, 1))
        def update(
            parameters: Parameters, state: Any, inputs: Array, targets: Array, key: Array
        ) -> Any:
            key, used = jax.random.split(key)
            value, gradients = jax.value_and_grad(loss)(parameters, inputs, targets, used)
            changes, state = optimizer.update(gradients, state)
            return optax.apply_updates(parameters, changes), state, key, value

        self._update = update

    def update(self, number: int) -> Array:
        """Updates the weights with the batch of that number; the loss []."""
        self._parameters, self._state, self._key, loss = self._update(
            self._parameters, self._state, *self._ids[number], self._key
        )
        # Updates would queue up for as long as nobody waits.
        return jax.block_until_ready(loss)


if __name__ == "__main__":
    task = json.loads(sys.argv[1])
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: task["threads"]])
    training = Training(task)
    answer(training.update, training.batches)
