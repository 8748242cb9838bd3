"""The messages of TensorFlow Serving's REST protocol: what a request asks, and the JSON of an
answer. Needs no TensorFlow.

Rows:     {"signature_name": "score", "instances": [{"inputs": "a", "targets": "b"}, ...]}
          -> {"predictions": [{output: value, ...}, ...]}, a bare value where there is one output
Columns:  {"signature_name": "score", "inputs": {"inputs": ["a", ...], "targets": ["b", ...]}}
          -> {"outputs": {output: [value, ...], ...}}, a bare list where there is one output

Strings are UTF-8, or {"b64": ...}. A signature with one input also takes bare strings.
"""

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from starlette.exceptions import HTTPException

from ut_tf.data.text.utf8 import surrogate_in
from ut_tf.errors import shown
from ut_tf.storage.json_lines import unique_keys

DEFAULT_SIGNATURE = "serving_default"
MOST_TEXT_BYTES = 65_536
"""Of a text: a model divides all of it into symbols, each of which takes much more memory, before
it reads the first ones.
"""
ERROR, WARNING = "error", "warning"
"""Outputs of every signature: why an example cannot be read, and what is not read of it, or not as
it stands; "".
"""

Columns = dict[str, list[bytes]]
"""The texts of each input of a signature, one per example."""

Outputs = dict[str, np.ndarray[Any, Any]]
"""The value of each output of a signature, [examples, ...]."""


class TensorInfo(NamedTuple):
    """A tensor of a signature: TensorFlow's name of its type (DT_STRING) and its shape, -1 where
    any size fits.
    """

    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class SignatureInfo:
    """The tensors of a signature: its inputs are strings [batch].

    Fields:
      inputs: their names.
      outputs: the others, by name.
      fields_of_lines: the inputs whose text may be a list of lines, such as a story's sentences.
    """

    inputs: tuple[str, ...]
    outputs: Mapping[str, TensorInfo]
    fields_of_lines: frozenset[str] = frozenset()


class Asked(NamedTuple):
    """What the body of a request for predictions asks.

    Fields:
      signature: its name.
      columns: the texts of its inputs.
      by_rows: whether the answer has one value per example, or one per output.
    """

    signature: str
    columns: Columns
    by_rows: bool


def parse_predict(body: bytes, signatures: Mapping[str, SignatureInfo]) -> Asked:
    """What the body of a request for predictions asks of a model with these signatures."""
    try:
        request = json.loads(body, object_pairs_hook=unique_keys)
    except (ValueError, RecursionError) as error:
        raise HTTPException(400, f"JSON Parse error: {error}") from error
    if not isinstance(request, dict):
        raise HTTPException(400, f"JSON Value: {_shown(request)} Is not object")
    name = request.get("signature_name") or DEFAULT_SIGNATURE
    if not isinstance(name, str):
        raise HTTPException(
            400,
            f"JSON Value: {_shown(name)} not formatted correctly. 'signature_name' key must be a"
            " string value.",
        )
    if name not in signatures:
        raise HTTPException(
            400,
            f'Serving signature name: "{shown(name)}" not found in signature def; the model has'
            f" {', '.join(signatures)}",
        )
    info = signatures[name]
    if ("instances" in request) == ("inputs" in request):
        problem = "expecting only one of" if "inputs" in request else "Missing"
        raise HTTPException(400, f"{problem} 'inputs' or 'instances' key")
    if "instances" in request:
        return Asked(name, _from_rows(request["instances"], info), True)
    return Asked(name, _from_columns(request["inputs"], info), False)


def predict_json(outputs: Outputs, by_rows: bool) -> str:
    """The answer to a request for predictions."""
    values = {name: _json_values(name, array) for name, array in outputs.items()}
    if not by_rows:
        return _dumps({"outputs": _bare(values)})
    rows = [dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)]
    return _dumps({"predictions": [_bare(row) for row in rows]})


def check_read(outputs: Outputs) -> None:
    """Raises HTTPException where the outputs are of one example that could not be read; of several,
    each has its own error.
    """
    errors = outputs.get(ERROR)
    if errors is not None and errors.shape == (1,) and errors[0]:
        raise HTTPException(400, errors[0].decode("utf-8", "replace"))


def metadata_json(model: str, version: int, signatures: Mapping[str, SignatureInfo]) -> str:
    """The answer to a request for a model's signatures."""
    text = TensorInfo("DT_STRING", (-1,))
    definitions = {
        name: {
            "inputs": {field: _tensor_json(name, field, text) for field in info.inputs},
            "outputs": {
                field: _tensor_json(name, field, tensor) for field, tensor in info.outputs.items()
            },
            "method_name": "tensorflow/serving/predict",
            "defaults": {},
        }
        for name, info in signatures.items()
    }
    return _dumps(
        {
            "model_spec": {"name": model, "signature_name": "", "version": str(version)},
            "metadata": {"signature_def": {"signature_def": definitions}},
        }
    )


def status_json(version: int) -> str:
    """The answer to a request for the state of a model with one loaded version."""
    status = {"error_code": "OK", "error_message": ""}
    state = {"version": str(version), "state": "AVAILABLE", "status": status}
    return _dumps({"model_version_status": [state]})


def _from_rows(instances: Any, info: SignatureInfo) -> Columns:
    inputs = info.inputs
    if not isinstance(instances, list) or not instances:
        raise HTTPException(
            400,
            f"JSON Value: {_shown(instances)} Expecting 'instances' to be a list/array with one"
            " value or more",
        )
    columns: Columns = {name: [] for name in inputs}
    for index, row in enumerate(instances):
        where = f"Failed to process element: {index} of 'instances' list."
        if len(inputs) == 1 and not _is_named(row):
            row = {inputs[0]: row}
        if not isinstance(row, dict) or row.keys() != columns.keys():
            raise HTTPException(
                400, f"{where} JSON object: {_shown(row)} keys must be equal to: {','.join(inputs)}"
            )
        for name, column in columns.items():
            column.append(_text(row[name], where, name in info.fields_of_lines))
    return columns


def _from_columns(values: Any, info: SignatureInfo) -> Columns:
    inputs = info.inputs
    if len(inputs) == 1 and not _is_named(values):
        values = {inputs[0]: values}
    if not isinstance(values, dict) or values.keys() != set(inputs):
        raise HTTPException(
            400,
            f"JSON Value: {_shown(values)} Expecting 'inputs' to be an object with the keys:"
            f" {','.join(inputs)}",
        )
    columns: Columns = {}
    for name in inputs:
        where = f"Failed to process '{name}' of 'inputs' object."
        if not isinstance(values[name], list):
            raise HTTPException(400, f"{where} JSON Value: {_shown(values[name])} is not a list")
        takes_lines = name in info.fields_of_lines
        columns[name] = [_text(value, where, takes_lines) for value in values[name]]
    sizes = {name: len(column) for name, column in columns.items()}
    if len(set(sizes.values())) > 1:
        raise HTTPException(400, f"Expecting lists of one size in 'inputs' object but got: {sizes}")
    return columns


def _is_named(value: Any) -> bool:
    """Whether a value is an object of inputs by name, not a text."""
    return isinstance(value, dict) and value.keys() != {"b64"}


def _text(value: Any, where: str, takes_lines: bool) -> bytes:
    if takes_lines and isinstance(value, list):
        text = b"\n".join(_bytes(line, where) for line in value)
    else:
        text = _bytes(value, where)
    if len(text) > MOST_TEXT_BYTES:
        raise HTTPException(
            413, f"{where} The text has {len(text)} bytes: expected at most {MOST_TEXT_BYTES}"
        )
    return text


def _bytes(value: Any, where: str) -> bytes:
    if isinstance(value, str):
        half = surrogate_in(value)
        if half:
            told = f"{where} The text has {half}, half of a surrogate pair and no character"
            raise HTTPException(400, told)
        return value.encode("utf-8")
    if isinstance(value, dict) and isinstance(value.get("b64"), str):
        try:
            return base64.b64decode(value["b64"], validate=True)
        except (binascii.Error, ValueError) as error:
            raise HTTPException(400, f"{where} Unable to base64 decode") from error
    raise HTTPException(400, f"{where} JSON Value: {_shown(value)} is not of expected type: string")


def _json_values(name: str, array: np.ndarray[Any, Any]) -> list[Any]:
    if array.dtype == object:
        return [_json_text(value, name.endswith("_bytes")) for value in array.tolist()]
    if array.dtype == np.float32:
        # The shortest digits that give the same float32, as the protocol's server writes them.
        array = array.astype(str).astype(np.float64)
    values: list[Any] = array.tolist()
    return values


def _json_text(value: Any, as_base64: bool) -> Any:
    if isinstance(value, list):
        return [_json_text(entry, as_base64) for entry in value]
    if as_base64:
        return {"b64": base64.b64encode(value).decode()}
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _bare(values: dict[str, Any]) -> Any:
    return next(iter(values.values())) if len(values) == 1 else values


def _tensor_json(signature: str, field: str, tensor: TensorInfo) -> dict[str, Any]:
    dims = [{"size": str(size), "name": ""} for size in tensor.shape]
    return {
        "dtype": tensor.dtype,
        "tensor_shape": {"dim": dims, "unknown_rank": False},
        "name": f"{signature}_{field}:0",
    }


def _dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _shown(value: Any) -> str:
    """The beginning of a value as JSON, of which no level beyond it is looked at."""
    return shown(json.JSONEncoder(ensure_ascii=False).iterencode(value))
