"""A Universal Transformer of fixed depth in plain PyTorch: what ``benchmarks/train.py --peers``
compares the library with.

    python benchmarks/peers/pytorch_universal_transformer.py '{"network": {...}, ...}'

It has the library's shape: the same parameters, coordinates, dropout, tied embeddings, Adam and
smoothed labels. It is written as a user of PyTorch would write it, with its fused attention and its
fused Adam. As a command it trains on batches from a file: a line with seconds on standard input is
answered by a line of JSON. It imports neither TensorFlow nor ut-tf.
"""

import dataclasses
import json
import math
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

LEARNING_RATE = 1e-4


@dataclasses.dataclass(frozen=True)
class Network:
    """The shape of the network; fields are named as the library's hyperparameters."""

    hidden_size: int
    filter_size: int
    num_heads: int
    num_steps: int
    norm: str
    norm_epsilon: float
    dropout: float
    attention_dropout: float
    relu_dropout: float
    position: str
    step_encoding: str


def paper_sinusoid(coordinates: Tensor, hidden_size: int) -> Tensor:
    """Sines and cosines in turn, arXiv 1807.03819 equations 6 and 7: [length] -> [length,
    hidden_size].
    """
    exponents = torch.arange(hidden_size // 2) * (2.0 / hidden_size)
    angles = coordinates[:, None] * torch.exp(-math.log(10000.0) * exponents)
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)


def tensor2tensor_sinusoid(coordinates: Tensor, hidden_size: int) -> Tensor:
    """All sines before all cosines: [length] -> [length, hidden_size]."""
    count = hidden_size // 2
    increment = math.log(10000.0) / max(count - 1, 1)
    angles = coordinates[:, None] * torch.exp(-increment * torch.arange(count))
    return torch.cat([angles.sin(), angles.cos()], -1)


def positions(form: str, count: int, hidden_size: int) -> Tensor:
    """The signals [count, hidden_size] of the first positions or steps: "paper" counts from 1,
    "tensor2tensor" from 0.
    """
    order = torch.arange(count, dtype=torch.float32)
    if form == "paper":
        return paper_sinusoid(order + 1.0, hidden_size)
    return tensor2tensor_sinusoid(order, hidden_size)


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
        self.register_buffer("steps", positions(network.position, self.depth, width), False)

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
        """The states after one more step; `signal` [length, hidden_size] is that of positions and
        step.
        """
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
        self.register_buffer("signal", positions(network.position, max_length, width), False)

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
    """The training of a new network on batches in memory, one after the other and again.

    Args:
      task: "network", "vocab_size", "label_smoothing", "adam" (betas, epsilon), "clip_norm",
        "batches" (the file), "threads" and "warmup_steps".
    """

    def __init__(self, task: dict[str, Any]) -> None:
        torch.set_num_threads(task["threads"])
        torch.manual_seed(0)
        stored = np.load(task["batches"])
        self._flop = [int(value) for value in stored["flop"]]
        self._batches = [
            tuple(
                torch.from_numpy(stored[f"{name}_{number}"].astype(np.int64))
                for name in ("inputs", "targets")
            )
            for number in range(len(self._flop))
        ]
        self._network = UniversalTransformer(Network(**task["network"]), task["vocab_size"])
        beta1, beta2, epsilon = task["adam"]
        self._optimizer = torch.optim.Adam(
            self._network.parameters(), LEARNING_RATE, (beta1, beta2), epsilon, fused=True
        )
        self._clip_norm = task["clip_norm"]
        self._label_smoothing = task["label_smoothing"]
        self._updates = 0
        # Each shape once before anything is timed.
        for _ in range(max(task["warmup_steps"], len(self._flop))):
            self.update()

    def update(self) -> tuple[int, Tensor]:
        """Updates the weights once: (the number of the batch, the loss [])."""
        number = self._updates % len(self._flop)
        inputs, targets = self._batches[number]
        loss = smoothed_loss(self._network(inputs, targets), targets, self._label_smoothing)
        self._optimizer.zero_grad(set_to_none=True)
        loss.backward()
        if self._clip_norm:
            nn.utils.clip_grad_norm_(self._network.parameters(), self._clip_norm)
        self._optimizer.step()
        self._updates += 1
        return number, loss.detach()

    def measure(self, seconds: float) -> dict[str, float]:
        """Goes on for about `seconds`, at least one update; what ``train.Measurement`` holds."""
        numbers: list[int] = []
        loss = torch.zeros([])
        began, cpu_began = time.perf_counter(), time.process_time()
        while not numbers or time.perf_counter() - began < seconds:
            number, loss = self.update()
            numbers.append(number)
        targets = [self._batches[number][1] for number in numbers]
        return {
            "steps": len(numbers),
            "seconds": time.perf_counter() - began,
            "cpu_seconds": time.process_time() - cpu_began,
            "flop": sum(self._flop[number] for number in numbers),
            "tokens": sum(int((batch != 0).sum()) for batch in targets),
            "positions": sum(batch.numel() for batch in targets),
            "loss": float(loss),
        }


def main() -> int:
    """Answers each line of standard input, seconds, with a measurement; the first line printed says
    that it is ready.
    """
    training = Training(json.loads(sys.argv[1]))
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        print(json.dumps(training.measure(float(line))), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
