"""A Universal Transformer of fixed depth in plain PyTorch: what ``benchmarks/train.py --peers``
compares the library with.

    python benchmarks/peers/pytorch_universal_transformer.py '{"network": {...}, ...}'

It has the library's shape: the same parameters, coordinates, dropout, tied embeddings, Adam and
smoothed labels. It is written as a user of PyTorch would write it, with its fused attention and its
fused Adam, and autocast for bfloat16. As a command it trains on batches from a file (shared.py).
"""

import json
import sys
from collections.abc import Callable
from typing import Any

import torch
from shared import LEARNING_RATE, Network, answer, positions, stored_batches
from torch import Tensor, nn
from torch.nn import functional


def signals(network: Network, count: int) -> Tensor:
    """The signals float32 [count, hidden_size] of the first positions or steps."""
    return torch.from_numpy(positions(network.position, count, network.hidden_size))


class Attention(nn.Module):
    """Multi-head attention without biases.

    Args:
      network: the shape.
      over_memory: whether keys and values are given.
    """

    def __init__(self, network: Network, over_memory: bool) -> None:
        super().__init__()
        width = network.hidden_size
        self.heads, self.rate = network.num_heads, network.attention_dropout
        self.query = nn.Linear(width, width if over_memory else 3 * width, bias=False)
        self.key_value = nn.Linear(width, 2 * width, bias=False) if over_memory else None
        self.output = nn.Linear(width, width, bias=False)

    def split(self, projected: Tensor, count: int) -> tuple[Tensor, ...]:
        """`count` of [batch, heads, length, head_size], of [batch, length, count * width]."""
        heads = projected.unflatten(-1, (count, self.heads, -1))
        return heads.permute(2, 0, 3, 1, 4).unbind(0)

    def forward(self, x: Tensor, bias: Tensor, memory: tuple[Tensor, ...] | None) -> Tensor:
        if memory is None:
            queries, keys, values = self.split(self.query(x), 3)
        else:
            (queries,), (keys, values) = self.split(self.query(x), 1), memory
        rate = self.rate if self.training else 0.0
        mixed = functional.scaled_dot_product_attention(queries, keys, values, bias, rate)
        output: Tensor = self.output(mixed.transpose(1, 2).flatten(2))
        return output


class Transition(nn.Module):
    """Two affine maps with a ReLU and dropout between."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.inner = nn.Linear(network.hidden_size, network.filter_size)
        self.outer = nn.Linear(network.filter_size, network.hidden_size)
        self.dropout = nn.Dropout(network.relu_dropout)

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.outer(self.dropout(functional.relu(self.inner(x))))
        return output


class Stack(nn.Module):
    """The encoder or the decoder: one block, applied ``num_steps`` times.

    Args:
      network: the shape.
      with_memory: whether the block attends over an encoder's states.
    """

    def __init__(self, network: Network, with_memory: bool) -> None:
        super().__init__()
        width, epsilon = network.hidden_size, network.norm_epsilon
        self.depth, self.is_post = network.num_steps, network.norm == "post"
        self.self_attention = Attention(network, over_memory=False)
        self.memory_attention = Attention(network, over_memory=True) if with_memory else None
        self.transition = Transition(network)
        sublayers = 3 if with_memory else 2
        self.norms = nn.ModuleList(nn.LayerNorm(width, epsilon) for _ in range(sublayers))
        self.final_norm = None if self.is_post else nn.LayerNorm(width, epsilon)
        self.dropout = nn.Dropout(network.dropout)
        self.step_table = None
        if network.step_encoding == "learned":
            self.step_table = nn.Parameter(torch.randn(self.depth, width) * width**-0.5)
        self.register_buffer("steps", signals(network, self.depth), False)

    def forward(
        self,
        x: Tensor,
        signal: Tensor,
        bias: Tensor,
        memory: Tensor | None = None,
        memory_bias: Tensor | None = None,
    ) -> Tensor:
        attend_memory, remembered = self.memory_attention, None
        if attend_memory is not None:
            # The encoder's states and the weights are those of all steps.
            remembered = attend_memory.split(attend_memory.key_value(memory), 2)
        steps = self.steps if self.step_table is None else self.step_table * x.shape[-1] ** 0.5
        for step in range(self.depth):
            x = self.one_step(x, signal + steps[step], bias, remembered, memory_bias)
        return x if self.final_norm is None else self.final_norm(x)

    def one_step(
        self,
        x: Tensor,
        signal: Tensor,
        bias: Tensor,
        remembered: tuple[Tensor, ...] | None,
        memory_bias: Tensor | None,
    ) -> Tensor:
        """The states after a step; `signal` [length, hidden_size]: of positions and step."""
        attend_memory = self.memory_attention
        x = self.sublayer(0, lambda y: self.self_attention(y, bias, None), x + signal)
        if attend_memory is not None:
            x = self.sublayer(1, lambda y: attend_memory(y, memory_bias, remembered), x)
        return self.sublayer(-1, self.transition, x)

    def sublayer(self, number: int, function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        """A sublayer with residual, dropout and norm."""
        norm = self.norms[number]
        if self.is_post:
            output: Tensor = norm(x + self.dropout(function(x)))
            return output
        return x + self.dropout(function(norm(x)))


class UniversalTransformer(nn.Module):
    """Logits [batch, target_length, vocab_size] of inputs and targets, int64 [batch, length]."""

    def __init__(self, network: Network, vocab_size: int, max_length: int = 1024) -> None:
        super().__init__()
        width = network.hidden_size
        self.table = nn.Parameter(torch.randn(vocab_size, width) * width**-0.5)
        self.encoder, self.decoder = Stack(network, False), Stack(network, True)
        self.dropout = nn.Dropout(network.dropout)
        self.register_buffer("signal", signals(network, max_length), False)

    def forward(self, inputs: Tensor, targets: Tensor) -> Tensor:
        length = targets.shape[1]
        padding = torch.where(inputs == 0, -1e9, 0.0)[:, None, None, :]
        encoded = self.encoder(self.embed(inputs), self.signal[: inputs.shape[1]], padding)
        later = torch.full((length, length), -1e9).triu(1)
        previous = functional.pad(targets[:, :-1], (1, 0))
        states = self.decoder(self.embed(previous), self.signal[:length], later, encoded, padding)
        return functional.linear(states, self.table)

    def embed(self, ids: Tensor) -> Tensor:
        """States [batch, length, hidden_size] of ids; padding becomes zeros."""
        states = functional.embedding(ids, self.table) * self.table.shape[1] ** 0.5
        return self.dropout(states * (ids != 0)[..., None])


def smoothed_loss(logits: Tensor, targets: Tensor, label_smoothing: float) -> Tensor:
    """The mean cross entropy of the targets that are not padding; the other V - 1 symbols share the
    probability `label_smoothing`.
    """
    vocabulary = logits.shape[-1]
    # PyTorch shares it among all V symbols.
    share = label_smoothing * vocabulary / (vocabulary - 1)
    return functional.cross_entropy(
        logits.flatten(0, 1), targets.flatten(), ignore_index=0, label_smoothing=share
    )


class Training:
    """The training of a new network on batches in memory.

    Args:
      task: "network", "vocab_size", "label_smoothing", "adam" (betas, epsilon), "clip_norm",
        "batches" (the file), "threads" and "is_bfloat16" (autocast).
    """

    def __init__(self, task: dict[str, Any]) -> None:
        torch.set_num_threads(task["threads"])
        torch.manual_seed(0)
        self.batches = stored_batches(task)
        self._ids = [tuple(map(torch.from_numpy, batch[1:])) for batch in self.batches]
        self._network = UniversalTransformer(Network(**task["network"]), task["vocab_size"])
        beta1, beta2, epsilon = task["adam"]
        self._optimizer = torch.optim.Adam(
            self._network.parameters(), LEARNING_RATE, (beta1, beta2), epsilon, fused=True
        )
        self._clip_norm = task["clip_norm"]
        self._label_smoothing = task["label_smoothing"]
        self._is_bfloat16 = task["is_bfloat16"]

    def update(self, number: int) -> Tensor:
        """Updates the weights with the batch of that number; the loss []."""
        inputs, targets = self._ids[number]
        with torch.autocast("cpu", torch.bfloat16, enabled=self._is_bfloat16):
            loss = smoothed_loss(self._network(inputs, targets), targets, self._label_smoothing)
        self._optimizer.zero_grad(set_to_none=True)
        loss.backward()
        if self._clip_norm:
            nn.utils.clip_grad_norm_(self._network.parameters(), self._clip_norm)
        self._optimizer.step()
        return loss.detach()


if __name__ == "__main__":
    training = Training(json.loads(sys.argv[1]))
    answer(training.update, training.batches)
