"""A model of Python functions behind the real server."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from starlette.routing import Route

from ut_tf.serving.batching import Batcher
from ut_tf.serving.endpoints import ModelEndpoints
from ut_tf.serving.rest_messages import Columns, Outputs, SignatureInfo, TensorInfo
from ut_tf.web.guard import Limits
from ut_tf.web.server import WebServer

TEXT = TensorInfo("DT_STRING", (-1,))
OUTPUTS = {
    "weigh": ["outputs", "probability", "probabilities"],
    "ponder": ["tokens", "ponder_times"],
    "score": ["log_probabilities"],
    "impossible": ["outputs", "scores"],
}
"""What signatures are said to return that do not return "outputs"."""

Answer = Callable[[list[dict[str, str]]], list[dict[str, Any]]]


class PythonModel:
    """Signatures of functions of lists of examples; ``calls`` holds the examples of each call.

    Args:
      signatures: names of the inputs of each signature, and what answers a list of examples.
      gate: event that every call waits for.
      version: its number.
    """

    def __init__(
        self,
        signatures: dict[str, tuple[list[str], Answer]],
        gate: threading.Event | None = None,
        version: int = 3,
    ) -> None:
        self.version = version
        self.title = "reversing <letters>"
        self.about: dict[str, Any] = {"classes": [], "board": None}
        self.calls: list[list[dict[str, str]]] = []
        self._functions = {name: answer for name, (_, answer) in signatures.items()}
        self._gate = gate
        self._infos = {
            name: SignatureInfo(tuple(inputs), dict.fromkeys(OUTPUTS.get(name, ["outputs"]), TEXT))
            for name, (inputs, _) in signatures.items()
        }

    @property
    def signatures(self) -> Mapping[str, SignatureInfo]:
        return self._infos

    def slots(self, signature: str) -> None:
        """None: every signature is answered in whole batches."""

    def answer(self, signature: str, columns: Columns) -> Outputs:
        rows = zip(*columns.values(), strict=True)
        examples = [
            dict(zip(columns, (text.decode() for text in row), strict=True)) for row in rows
        ]
        self.calls.append(examples)
        if self._gate is not None:
            assert self._gate.wait(20)
        answers = self._functions[signature](examples)
        return {name: _array([answer[name] for answer in answers]) for name in answers[0]}


@contextlib.contextmanager
def served(
    model: Any,
    name: str = "toy",
    batcher: Batcher | None = None,
    insights: Sequence[Route] = (),
    **limits: Any,
) -> Iterator[WebServer]:
    """A server of a model, at any free port."""
    endpoints = ModelEndpoints(lambda: model, batcher or Batcher(), name, insights)
    with WebServer(endpoints.routes, "ut-serve", limits=Limits(**limits)) as server:
        yield server


def _array(values: list[Any]) -> np.ndarray[Any, Any]:
    """Values of examples; lists are padded to one length."""
    if isinstance(values[0], list):
        width = max(map(len, values))
        filler = "" if isinstance(values[0][0], str) else 0.0
        values = [value + [filler] * (width - len(value)) for value in values]
    array = np.array(values)
    return np.char.encode(array, "utf-8").astype(object) if array.dtype.kind == "U" else array
