"""Networks of other libraries that train.py measures beside its own, each in a process of its own.

::

    names, missing = available(["pytorch"])
    peer = Peer("pytorch", run, batches, threads=2)
    numbers = peer.measure(seconds=5.0)   # what train.Measurement holds
    peer.close()

A peer's process waits while others are measured.
"""

import dataclasses
import importlib.util
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from peers.shared import Network

from ut_tf.errors import UserError
from ut_tf.models.universal_transformer.config import UniversalTransformerConfig
from ut_tf.run import Run

HERE = Path(__file__).resolve().parent


class Program(NamedTuple):
    """What a peer is made of.

    Fields:
      script: in this folder.
      modules: that it imports, to be installed.
      policy: the library's dtype policy that it is compared with.
    """

    script: str
    modules: tuple[str, ...]
    policy: str = "float32"


PEERS = {
    "pytorch": Program("pytorch_universal_transformer.py", ("torch",)),
    "pytorch_bfloat16": Program("pytorch_universal_transformer.py", ("torch",), "mixed_bfloat16"),
    "jax": Program("jax_universal_transformer.py", ("jax", "optax")),
    "jax_bfloat16": Program("jax_universal_transformer.py", ("jax", "optax"), "mixed_bfloat16"),
}
READ_FIELDS = tuple(field.name for field in dataclasses.fields(Network))
# What the peers have not; a network must have the defaults here.
PLAIN_FIELDS = (
    *("halting", "steps_per_position", "recurrence", "recurrence_layers", "recurrent_layer"),
    *("mix_layers_before", "mix_layers_after", "transition", "word_dropout", "relative_bias"),
    *("position_every_step", "position_from", "position_separator", "position_digits"),
    *("position_offset", "target_position", "input_start_symbol", "target_space_embedding"),
    *("attention_bias", "attention_scale", "shared_embedding", "embedding_scale"),
)
CHOICES: dict[str, tuple[Any, ...]] = {
    "position": ("paper", "tensor2tensor"),
    "step_encoding": ("sinusoid", "learned"),
    **dict.fromkeys(("inputs", "targets"), ("tokens",)),
    "shared_vocab": (True,),
    "optimizer": ("adam",),
}


def available(names: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """The peers that can run here, and for each other one a sentence that says why not.

    Raises:
      UserError: a name is none of ``PEERS``.
    """
    missing: dict[str, str] = {}
    for name in names:
        if name not in PEERS:
            raise UserError(f"--peers={name}: expected some of {', '.join(PEERS)}.")
        modules = PEERS[name].modules
        if any(importlib.util.find_spec(module) is None for module in modules):
            missing[name] = f"{name} is not measured: run `pip install {' '.join(modules)}`."
    return [name for name in names if name not in missing], missing


def check(run: Run) -> None:
    """Raises UserError where the run's model has a part that the peers lack."""
    if run.hparams.model != "universal_transformer":
        raise UserError(f"--peers: expected a universal_transformer, not a {run.hparams.model}.")
    assert run.spec is not None
    network, plain = run.hparams.network, UniversalTransformerConfig()
    values = {**vars(network), **vars(run.spec), "optimizer": run.hparams.training.optimizer}
    choices_of = {**{name: (getattr(plain, name),) for name in PLAIN_FIELDS}, **CHOICES}
    for name, choices in choices_of.items():
        if values[name] not in choices:
            expected = " or ".join(map(str, choices))
            raise UserError(
                f"--peers: {name}={values[name]}: the peers expect {expected}; set that, or choose"
                " another problem."
            )


def network_of(run: Run) -> dict[str, Any]:
    """The fields of the run's network that a peer reads."""
    return {name: getattr(run.hparams.network, name) for name in READ_FIELDS}


class Peer:
    """A peer in a process of its own, which has trained a few updates and waits.

    Args:
      name: one of ``PEERS``.
      run: whose network and training it imitates.
      batches: each with its FLOP; the peer trains on them in turn.
      threads: of each operation.

    Raises:
      UserError: the process has failed; what it said stands on standard error.
    """

    def __init__(
        self, name: str, run: Run, batches: Sequence[tuple[int, dict[str, Any]]], threads: int
    ) -> None:
        assert run.spec is not None
        training = run.hparams.training
        self.name = name
        with tempfile.TemporaryDirectory() as folder:
            stored = Path(folder) / "batches.npz"
            _store(batches, stored)
            task = {
                "network": network_of(run),
                "vocab_size": run.spec.target_vocab_size,
                "label_smoothing": training.label_smoothing,
                "adam": [training.adam_beta1, training.adam_beta2, training.adam_epsilon],
                "clip_norm": training.clip_norm,
                "batches": str(stored),
                "threads": threads,
                "is_bfloat16": PEERS[name].policy == "mixed_bfloat16",
            }
            self._process = subprocess.Popen(
                [sys.executable, str(HERE / PEERS[name].script), json.dumps(task)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            self._read()

    def measure(self, seconds: float) -> dict[str, Any]:
        """Trains for about `seconds`; the fields of ``train.Measurement``."""
        assert self._process.stdin is not None
        print(seconds, file=self._process.stdin, flush=True)
        return self._read()

    def close(self) -> None:
        """Ends the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            status = self._process.wait()
            raise UserError(f"the process of the peer {self.name} has ended with status {status}.")
        numbers: dict[str, Any] = json.loads(line)
        return numbers


def _store(batches: Sequence[tuple[int, dict[str, Any]]], path: Path) -> None:
    import numpy as np

    arrays = {
        f"{name}_{number}": values
        for number, (_, features) in enumerate(batches)
        for name, values in features.items()
    }
    np.savez(path, flop=np.array([flop for flop, _ in batches], np.int64), **arrays)
