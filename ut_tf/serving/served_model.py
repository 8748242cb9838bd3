"""An exported model in this process: its signatures, and the newest of its versions.

Example::

    model = ServedModel(Path("exports/ende/1"), 1)
    model.answer("serving_default", {"inputs": [b"Two dogs run."]})     # {"outputs": ..., ...}
"""

import contextlib
import importlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from starlette.exceptions import HTTPException
from tensorflow.core.framework import types_pb2

from ut_tf.errors import UserError, marked_in
from ut_tf.serving.rest_messages import (
    DEFAULT_SIGNATURE,
    ERROR,
    WARNING,
    Columns,
    Outputs,
    SignatureInfo,
    TensorInfo,
)
from ut_tf.serving.slots import IDS, LENGTH, START, STEP, Rows, Slots
from ut_tf.serving.versions import SUMMARY_FILE
from ut_tf.storage.json_lines import read_object_of
from ut_tf.storage.tensorflow_paths import readable_by_tensorflow

_SAMPLE = b"1 2 3"
# Inputs that these signatures have among others.
_SLOTS = {START: {LENGTH}, STEP: {IDS, ERROR, WARNING}}
_IN_SLOTS = (DEFAULT_SIGNATURE, "classify")
# What TensorFlow writes before the reason of an error.
_WHERE = re.compile(r"Graph execution error|Detected at node|<stack traces|\d+ root error")
_NODE = re.compile(r"^(\(\d+\) [A-Z_]+:\s*)?(\{\{.*?\}\} )*")


class ServedModel:
    """A SavedModel that ut-exporter wrote, loaded and tried once.

    Args:
      folder: of the SavedModel.
      version: its number.

    Raises:
      UserError: it cannot be loaded or run, or takes something else than texts.
    """

    def __init__(self, folder: Path, version: int) -> None:
        self.version = version
        summary = read_object_of(folder / SUMMARY_FILE)
        self.title = str(summary.get("problem", ""))
        self.about = {"classes": _listed(summary, "classes"), "board": _board(summary)}
        # It owns the weights.
        self._module = _loaded(folder)
        self._functions = dict(self._module.signatures)
        self._slots: dict[str, Any] = {}
        if all(names <= _inputs(self._functions.get(name)) for name, names in _SLOTS.items()):
            self._slots = {name: self._functions.pop(name) for name in _SLOTS}
        self._infos = {
            name: _info(function, folder, name, summary)
            for name, function in self._functions.items()
        }
        for name, info in self._infos.items():
            self._try(name, info, folder)

    def _try(self, name: str, info: SignatureInfo, folder: Path) -> None:
        """Calls a signature once: TensorFlow optimizes its graph then."""
        columns = {field: [_SAMPLE] for field in info.inputs}
        try:
            self.answer(name, columns)
            if slots := self.slots(name):
                slots.add([name], columns)
                slots.advance()
        except HTTPException as error:
            raise UserError(
                f"{folder} cannot be run here (signature {name}: {error.detail}): export the run"
                " again on a machine like this one."
            ) from error

    @property
    def signatures(self) -> Mapping[str, SignatureInfo]:
        """The signatures by name."""
        return self._infos

    def answer(self, signature: str, columns: Columns) -> Outputs:
        """The outputs of a signature for the texts of its inputs.

        Raises:
          HTTPException: the model reports an error.
        """
        return _called(self._functions[signature], _tensors(columns))

    def slots(self, signature: str) -> Slots | None:
        """New slots that answer as a signature does; None: it has no recurrent steps of its own."""
        if not self._slots or signature not in _IN_SLOTS:
            return None
        start, step = self._slots[START], self._slots[STEP]

        def started(columns: Columns, length: int) -> Rows:
            return _called(start, {**_tensors(columns), LENGTH: tf.constant(length)})

        def stepped(rows: Rows) -> Rows:
            return _called(step, {name: tf.constant(values) for name, values in rows.items()})

        return Slots(started, stepped)


def _tensors(columns: Columns) -> dict[str, Any]:
    return {name: tf.constant(texts, tf.string, [len(texts)]) for name, texts in columns.items()}


def _called(function: Any, tensors: dict[str, Any]) -> Outputs:
    try:
        outputs = function(**tensors)
    except tf.errors.ResourceExhaustedError as error:
        raise HTTPException(503, "Out of memory; send fewer or shorter texts at once") from error
    except tf.errors.OpError as error:
        wrong_input = isinstance(error, tf.errors.InvalidArgumentError)
        message = marked_in(error) or _reason(error)
        raise HTTPException(400 if wrong_input else 500, message) from error
    return {name: np.asarray(value.numpy()) for name, value in outputs.items()}


def _reason(error: tf.errors.OpError) -> str:
    lines = [line.strip() for line in error.message.splitlines() if line.strip()]
    told = [_NODE.sub("", line) for line in lines if not _WHERE.match(line)]
    return told[0] if told else type(error).__name__


def _board(summary: dict[str, Any]) -> dict[str, int] | None:
    """The rows, columns and boxes of the board whose cells texts are; None: they are no cells."""
    board = summary.get("board")
    if not isinstance(board, dict):
        return None
    return {name: size for name, size in board.items() if isinstance(size, int)}


def _loaded(folder: Path) -> Any:
    # Its operations are in models with subwords. Where it is missing, loading says which are.
    with contextlib.suppress(ImportError):
        importlib.import_module("tensorflow_text")
    try:
        with readable_by_tensorflow(folder) as readable:
            module = tf.saved_model.load(str(readable))
    except (OSError, ValueError, RuntimeError, tf.errors.OpError) as error:
        reason = " ".join(str(error).split())[:300]
        raise UserError(
            f"{folder} cannot be loaded ({reason}): export the run again with the TensorFlow that"
            " is installed here, and install tensorflow-text if operations are missing."
        ) from error
    if not getattr(module, "signatures", None):
        raise UserError(f"{folder} has no signatures: name an export of ut-exporter.")
    return module


def _inputs(function: Any) -> set[str]:
    """The names of the inputs of a signature that may be missing."""
    return set() if function is None else {*function.structured_input_signature[1]}


def _info(function: Any, folder: Path, name: str, summary: dict[str, Any]) -> SignatureInfo:
    inputs = function.structured_input_signature[1]
    other = {field: spec for field, spec in inputs.items() if spec.dtype != tf.string}
    if other or not inputs or any(spec.shape.rank != 1 for spec in inputs.values()):
        raise UserError(
            f"{folder}: the signature {name} takes {', '.join(other) or 'something'} that is no"
            " list of texts: name an export of ut-exporter."
        )
    outputs = {
        field: TensorInfo(
            types_pb2.DataType.Name(spec.dtype.as_datatype_enum),
            tuple(-1 if size is None else size for size in spec.shape),
        )
        for field, spec in function.structured_outputs.items()
    }
    of_lines = _listed(summary, "fields_of_lines")
    order = _listed(summary, "signatures", name, "inputs")
    # A function does not say in which order it was given its inputs.
    names = order if sorted(order) == sorted(inputs) else sorted(inputs)
    return SignatureInfo(tuple(names), outputs, frozenset(of_lines) & inputs.keys())


def _listed(value: Any, *keys: str) -> list[str]:
    """The texts of a list in a summary, by the keys that lead there; others may have written it."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []
