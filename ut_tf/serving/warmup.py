"""Requests that TensorFlow Serving runs before it takes a model into service, so that the first
users need not wait.

How it works: ``assets.extra/tf_serving_warmup_requests`` is a TFRecord file of
``tensorflow.serving.PredictionLog`` messages. They are written field by field in protobuf's wire
format, since the package that holds their classes is not needed for anything else:

    PredictionLog  { predict_log = 6: PredictLog }
    PredictLog     { request = 1: PredictRequest }
    PredictRequest { model_spec = 1: ModelSpec; inputs = 2: map of string to TensorProto, {key = 1,
    value = 2} each } ModelSpec      { name = 1: string; signature_name = 3: string }
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

import tensorflow as tf

FILE = "assets.extra/tf_serving_warmup_requests"

Request = tuple[str, Mapping[str, list[str]]]
"""Name of a signature, and the texts of each of its inputs."""


def write_warmup(export: Path, model_name: str, requests: Iterable[Request]) -> None:
    """Writes the requests of a SavedModel's warm-up.

    Args:
      export: folder of the SavedModel.
      model_name: under which it will be served; TensorFlow Serving does not compare it.
      requests: what is asked, in order.
    """
    path = export / FILE
    path.parent.mkdir(exist_ok=True)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for signature, inputs in requests:
            writer.write(_prediction_log(model_name, signature, inputs))


def _prediction_log(model_name: str, signature: str, inputs: Mapping[str, list[str]]) -> bytes:
    specification = _field(1, model_name.encode()) + _field(3, signature.encode())
    entries = (
        _field(1, name.encode()) + _field(2, _tensor(texts)) for name, texts in inputs.items()
    )
    request = _field(1, specification) + b"".join(_field(2, entry) for entry in entries)
    return _field(6, _field(1, request))


def _tensor(texts: list[str]) -> bytes:
    content: bytes = tf.make_tensor_proto(texts, tf.string, [len(texts)]).SerializeToString()
    return content


def _field(number: int, content: bytes) -> bytes:
    """A field of bytes: its number and wire type 2, the length, the content."""
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    """A whole number in groups of seven bits, the lowest first; the eighth says another follows."""
    groups = []
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*groups, value])
