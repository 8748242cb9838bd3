"""Requests that wait are joined into one call of the model.

How it works: a request joins a queue. When the model is free, the request that has waited longest
is taken with the others that ask the same signature of the same model, as long as they fit into a
batch, and the model is called once. Nothing waits for a batch to fill: batches grow by themselves
while the model is busy. A request larger than a batch is cut into several. Of a model that takes
one recurrent step at a time (``slots.py``) a call goes on as long as requests that it can take are
next in the queue: each example is answered when it has halted. Needs no TensorFlow.
"""

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from prometheus_client import Histogram
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from ut_tf.notices import warn
from ut_tf.serving.rest_messages import Columns, Outputs, SignatureInfo
from ut_tf.serving.slots import Slots

_SIZES = [2**power for power in range(11)]


class Model(Protocol):
    """What is served: one version of a model."""

    @property
    def version(self) -> int:
        """Its number."""

    @property
    def title(self) -> str:
        """What it was trained on, for people; empty where that is not known."""

    @property
    def about(self) -> Mapping[str, Any]:
        """What its page must know: the names of its ``classes``, and its ``board`` or None."""

    @property
    def signatures(self) -> Mapping[str, SignatureInfo]:
        """Its signatures by name."""

    def answer(self, signature: str, columns: Columns) -> Outputs:
        """The outputs of a signature for the texts of its inputs; called from several threads."""

    def slots(self, signature: str) -> Slots | None:
        """New slots that answer as a signature does; None: it is answered in whole batches."""


class Batcher:
    """Answers requests in batches, in the event loop of a server.

    Args:
      max_batch_size: examples in one call; 1: nothing is joined.
      max_waiting: examples that may wait; more requests are refused.
      calls: how many run at a time, each in a thread.
      timeout: seconds for the answer to a request.

    Fields:
      sizes: examples in each call, for Prometheus.
    """

    def __init__(
        self,
        max_batch_size: int = 32,
        max_waiting: int = 1024,
        calls: int = 1,
        timeout: float = 60.0,
    ) -> None:
        self.max_batch_size = max_batch_size
        self.max_waiting = max_waiting
        self.sizes = Histogram(
            "batch_examples", "In a call of the model.", buckets=_SIZES, registry=None
        )
        self._calls = calls
        self._timeout = timeout
        self._failed: set[tuple[int, str]] = set()
        self._running: set[asyncio.Task[None]] = set()
        self._waiting: deque[_Piece] = deque()

    async def answer(self, model: Model, signature: str, columns: Columns) -> Outputs:
        """The model's outputs for a request.

        Raises:
          HTTPException: too much waits already, or the time is over.
        """
        pieces = self._cut(model, signature, columns)
        self._waiting.extend(pieces)
        self._begin_calls()
        try:
            async with asyncio.timeout(self._timeout):
                results = await asyncio.gather(*(piece.result for piece in pieces))
        except TimeoutError as error:
            told = f"no answer within {self._timeout:g} seconds; send fewer texts at once"
            raise HTTPException(504, f"Timed out: {told}") from error
        finally:
            for piece in pieces:
                piece.result.cancel()
        return _without_padding(_join(results))

    def _cut(self, model: Model, signature: str, columns: Columns) -> "list[_Piece]":
        size = len(next(iter(columns.values())))
        if size > self.max_waiting:
            raise HTTPException(
                413, f"{size} examples in one request: expected at most {self.max_waiting}"
            )
        waiting = sum(piece.size for piece in self._waiting if not piece.result.done())
        if waiting + size > self.max_waiting:
            raise HTTPException(
                503, f"The queue is full: {waiting} examples wait already; try again later"
            )
        step = self.max_batch_size if size == 0 or model.slots(signature) is None else 1
        return [
            _Piece(
                model,
                signature,
                {name: texts[first : first + step] for name, texts in columns.items()},
                min(step, size - first),
            )
            for first in range(0, max(size, 1), step)
        ]

    def _begin_calls(self) -> None:
        while len(self._running) < self._calls and (pieces := self._next_batch()):
            first = pieces[0]
            slots = first.model.slots(first.signature) if first.size else None
            if slots is None:
                self.sizes.observe(sum(piece.size for piece in pieces))
            call = asyncio.create_task(
                _answer(pieces) if slots is None else self._answer_in_slots(slots, pieces)
            )
            self._running.add(call)
            call.add_done_callback(self._end_call)

    def _end_call(self, call: asyncio.Task[None]) -> None:
        self._running.discard(call)
        self._begin_calls()

    async def _answer_in_slots(self, slots: Slots, pieces: "list[_Piece]") -> None:
        """Answers examples that come and go, until none waits whose turn it is."""
        first, arrived = pieces[0], pieces
        try:
            while arrived or slots.held:
                if arrived:
                    await run_in_threadpool(slots.add, arrived, _columns(arrived))
                self.sizes.observe(len(slots.held))
                for piece, outputs in await run_in_threadpool(slots.advance):
                    piece.answer(outputs)
                slots.drop(lambda piece: piece.result.done())
                arrived = self._next_joining(first, slots.room(self.max_batch_size))
        except Exception as error:
            self._tell(first, error)
            # One by one, whole: what has failed once must not spoil the answers of others.
            for piece in dict.fromkeys([*slots.keys, *arrived]):
                if not piece.result.done():
                    await _answer([piece])

    def _tell(self, piece: "_Piece", error: Exception) -> None:
        """Warns of what failed in the slots of a signature, the first time."""
        failed = piece.model.version, piece.signature
        if failed not in self._failed:
            self._failed.add(failed)
            warn(
                f"version {failed[0]}, signature {failed[1]}: recurrent steps failed"
                f" ({type(error).__name__}: {error}); their examples are answered one by one."
            )

    def _next_joining(self, first: "_Piece", room: int) -> "list[_Piece]":
        """The pieces at the head of the queue that go with the first one; they leave it."""
        joining: list[_Piece] = []
        while self._waiting and len(joining) < room:
            piece = self._waiting[0]
            if not piece.result.done():
                if not piece.joins(first):
                    break
                joining.append(piece)
            self._waiting.popleft()
        return joining

    def _next_batch(self) -> "list[_Piece]":
        """The pieces of the next call, which leave the queue; none: nobody waits."""
        batch: list[_Piece] = []
        rest: deque[_Piece] = deque()
        room = self.max_batch_size
        for piece in self._waiting:
            if piece.result.done():
                # Nobody waits for it any more.
                continue
            if not batch or (piece.joins(batch[0]) and piece.size <= room):
                batch.append(piece)
                room -= piece.size
            else:
                rest.append(piece)
        self._waiting = rest
        return batch


@dataclass(eq=False)
class _Piece:
    """A request, or a part of a large one."""

    model: Model
    signature: str
    columns: Columns
    size: int
    result: asyncio.Future[Outputs] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )

    def joins(self, other: "_Piece") -> bool:
        same = self.model is other.model and self.signature == other.signature
        return same and bool(self.size) == bool(other.size)

    def answer(self, outputs: Outputs) -> None:
        if not self.result.done():
            self.result.set_result(outputs)


async def _answer(pieces: list[_Piece]) -> None:
    """Calls the model once for all pieces."""
    first = pieces[0]
    try:
        outputs = await run_in_threadpool(first.model.answer, first.signature, _columns(pieces))
    except Exception as error:
        if len(pieces) > 1:
            # One request must not spoil the answers of others.
            for piece in pieces:
                await _answer([piece])
        elif not first.result.done():
            first.result.set_exception(error)
        return
    start = 0
    for piece in pieces:
        end = start + piece.size
        piece.answer({name: value[start:end] for name, value in outputs.items()})
        start = end


def _columns(pieces: Sequence[_Piece]) -> Columns:
    """The texts of all pieces."""
    names = pieces[0].columns
    return {name: [text for piece in pieces for text in piece.columns[name]] for name in names}


def _join(results: Sequence[Outputs]) -> Outputs:
    if len(results) == 1:
        return results[0]
    return {name: _concatenate([part[name] for part in results]) for name in results[0]}


def _concatenate(parts: Sequence[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    """Arrays one below the other, padded to the same number of columns."""
    if parts[0].ndim < 2:
        return np.concatenate(parts)
    width = max(part.shape[1] for part in parts)
    filler = b"" if parts[0].dtype == object else 0
    return np.concatenate(
        [
            np.pad(part, ((0, 0), (0, width - part.shape[1])), constant_values=filler)
            for part in parts
        ]
    )


def _without_padding(outputs: Outputs) -> Outputs:
    """The outputs without the columns that only other requests of the batch have: tokens "" and
    ponder times 0 behind a text's end.
    """
    tokens = outputs.get("tokens")
    if tokens is None or tokens.ndim != 2:
        return outputs
    filled = np.any(tokens != b"", axis=0)
    for value in outputs.values():
        if value.shape == tokens.shape and value.dtype != object:
            filled = filled | np.any(value != 0, axis=0)
    width = max(int(np.max(np.nonzero(filled)[0], initial=0)) + 1, 1)
    return {
        name: value[:, :width] if value.shape == tokens.shape else value
        for name, value in outputs.items()
    }
