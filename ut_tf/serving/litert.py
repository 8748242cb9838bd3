"""A trained network as a LiteRT (TensorFlow Lite) file, for phones and small machines: ids in,
numbers out.

Example::

    folder = export_litert(Run.load("runs/ende"), Path("runs/ende/litert"))     # .../litert/1

Signatures, of one example of any length, with dynamic halting:
    encode:    inputs int32 [1, length] -> ponder_times float32 [1, length], memory_0, memory_1, ...
    step:      symbols int32 [1, n]: 0 and what was written so far; memory_0, ...
               -> logits float32 [1, target_vocab_size] of the next symbol
    classify:  inputs -> logits float32 [1, classes], ponder_times; of a classifier, alone
"""

import dataclasses
import re
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import tensorflow as tf

from ut_tf.errors import UserError
from ut_tf.layers.start_symbol import without_start
from ut_tf.models.interfaces import CallOptions
from ut_tf.run import Run
from ut_tf.run_weights import load_checkpoint
from ut_tf.serving.export import origin, write_summary
from ut_tf.serving.versions import ADVICE, new_version, written_version
from ut_tf.serving.weights import constant_scope
from ut_tf.storage.disk_errors import disk_errors
from ut_tf.storage.layout import VOCAB_FOLDER
from ut_tf.storage.model_folder import copy_vocabulary
from ut_tf.symbols import END_ID

MODEL_FILE = "model.tflite"
SUMMARY_FILE = "ut_tf.json"
_MEMORY = "memory_"
_SAMPLE = 3


def export_litert(
    run: Run,
    export_dir: Path,
    checkpoint: str = "best",
    quantize: Literal["", "int8"] = "",
    version: int | None = None,
) -> Path:
    """Writes ``<export_dir>/<version>`` with model.tflite, ut_tf.json and the run's vocabulary.

    Args:
      run: trained.
      export_dir: holds the versions; made where it is not there.
      checkpoint: as for ``find_checkpoint``; the moving average of the weights, where there is one.
      quantize: "int8": matrices are stored, and multiplied, as int8.
      version: number of the version; None: one more than the highest in `export_dir`.

    Returns:
      The folder of the version.

    Raises:
      UserError: the version exists, an argument cannot be, or LiteRT lacks an operation.
    """
    if quantize not in ("", "int8"):
        raise UserError(f"`quantize`={quantize}: expected int8, or nothing.")
    folder = new_version(export_dir, version)
    loaded = load_checkpoint(_in_form(run), checkpoint)
    network = _Network(loaded.model)
    content = _converted(network, quantize)
    interpreter = _interpreter(content)
    _check(network, interpreter, exact=not quantize)
    summary = {
        **origin(run, checkpoint, loaded.step),
        "quantize": quantize or None,
        "signatures": interpreter.get_signature_list(),
        "symbols": {"start": 0, "end": END_ID},
    }
    with disk_errors(export_dir, len(content), ADVICE), written_version(folder) as made:
        (made / MODEL_FILE).write_bytes(content)
        write_summary(made / SUMMARY_FILE, summary)
        copy_vocabulary(run.vocab_dir, made / VOCAB_FOLDER)
    return folder


class _Network:
    """The functions of a model that become signatures; its weights are constants of their graphs.

    Args:
      model: an ``EncoderDecoder``.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self._form: Any = None
        spec = model.spec
        rows = (None, spec.max_words or None) if spec.inputs == "facts" else (None,)
        self.inputs = tf.TensorSpec([1, *rows], tf.int32, name="inputs")

    def functions(self) -> dict[str, Any]:
        """The traced signatures by name."""
        model = self._model
        if not model.has_decoder:
            return {"classify": self._traced(self._classify, inputs=self.inputs)}
        symbols = tf.TensorSpec([1, None], tf.int32, name="symbols")
        if not model.has_encoder:
            return {"step": self._traced(self._step, symbols=symbols)}
        encode = self._traced(self._encode, inputs=self.inputs)
        memory = {
            name: tf.TensorSpec(tensor.shape, tensor.dtype, name=name)
            for name, tensor in encode.structured_outputs.items()
            if name.startswith(_MEMORY)
        }
        step = self._traced(self._step, symbols=symbols, **memory)
        return {"encode": encode, "step": step}

    def logits(self, inputs: Any, symbols: Any) -> Any:
        """What ``classify`` or ``step`` must give."""
        model = self._model
        features = {"inputs": inputs} if model.has_encoder else {}
        if not model.has_decoder:
            return model(features)
        return model({**features, "targets": _targets(symbols)})[:, -1]

    def _traced(self, function: Callable[..., Any], **specs: Any) -> Any:
        def call(**tensors: Any) -> Any:
            with constant_scope(self._model):
                return function(**tensors)

        return tf.function(call, autograph=False).get_concrete_function(**specs)

    def _encode(self, inputs: Any) -> dict[str, Any]:
        encoded = self._model.encode({"inputs": inputs}, CallOptions())
        self._form = encoded._replace(details=None)
        parts = [part for part in tf.nest.flatten(self._form) if part is not None]
        memory = {f"{_MEMORY}{number}": part for number, part in enumerate(parts)}
        return {"ponder_times": without_start(encoded.details.ponder_times, inputs), **memory}

    def _step(self, symbols: Any, **memory: Any) -> dict[str, Any]:
        model, encoded = self._model, None
        if memory:
            parts = iter(memory[f"{_MEMORY}{number}"] for number in range(len(memory)))
            flat = [None if part is None else next(parts) for part in tf.nest.flatten(self._form)]
            encoded = tf.nest.pack_sequence_as(self._form, flat)
        states, details = model.decode(_targets(symbols), encoded, CallOptions())
        logits, _ = model.answer(model.token_logits, states, details)
        return {"logits": tf.cast(logits[:, -1], tf.float32)}

    def _classify(self, inputs: Any) -> dict[str, Any]:
        logits, details = self._model({"inputs": inputs}, return_details=True)
        return {
            "logits": tf.cast(logits, tf.float32),
            "ponder_times": without_start(details.encoder.ponder_times, inputs),
        }


def _in_form(run: Run) -> Run:
    """The run in float32, in the form that computes all positions."""
    hparams = run.hparams.change(dtype_policy="float32")
    if hasattr(hparams.network, "halting_compute"):
        hparams = hparams.change(halting_compute="dense")
    return dataclasses.replace(run, hparams=hparams)


def _targets(symbols: Any) -> Any:
    """Targets whose last logits are of the symbol behind `symbols`: models shift targets right, and
    the last one only has to be there, and not be padding.
    """
    return tf.concat([symbols[:, 1:], [[END_ID]]], 1)


def _converted(network: _Network, quantize: str) -> bytes:
    with tempfile.TemporaryDirectory() as saved:
        functions = network.functions()
        tf.saved_model.save(tf.Module(), saved, signatures=functions)
        converter = tf.lite.TFLiteConverter.from_saved_model(saved, signature_keys=list(functions))
        if quantize:
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
        try:
            content: bytes = converter.convert()
        except Exception as error:
            # The converter's own class of errors is not public.
            if type(error).__name__ != "ConverterError":
                raise
            raise UserError(_why(str(error))) from error
    return content


def _why(message: str) -> str:
    """What the converter could not convert, and where."""
    failures = re.findall(
        r'loc\((?:callsite\()?(?:fused\["\w+:", )?"([^"]+)".*?'
        r"'tf\.(\w+)' op is neither a custom op nor a flex op",
        message,
    )
    places = {operation: place.partition("@")[0] for place, operation in failures}
    if not places:
        return f"LiteRT cannot take this network: {message.partition(chr(10))[0]}"
    lacking = ", ".join(f"{operation} (in {place})" for operation, place in places.items())
    return (
        f"LiteRT has no operation like TensorFlow's {lacking}: export a SavedModel, or train with"
        " another part in that place."
    )


def _check(network: _Network, interpreter: Any, exact: bool) -> None:
    """Raises UserError where LiteRT does not give what the model gives."""
    shape = [size or _SAMPLE for size in network.inputs.shape]
    inputs = np.full(shape, _SAMPLE, np.int32)
    symbols = np.array([[0, _SAMPLE]], np.int32)
    expected = np.asarray(network.logits(inputs, symbols))
    try:
        logits = _answer(interpreter, inputs, symbols)
    except RuntimeError as error:
        reason = " ".join(str(error).split())
        raise UserError(f"LiteRT cannot run this network: {reason}") from error
    difference = np.abs(logits - expected).max()
    if exact and not np.allclose(logits, expected, atol=1e-3, rtol=1e-3):
        raise UserError(
            f"LiteRT computes other logits than the model, by {difference:.3g}: export a"
            " SavedModel."
        )


def _answer(interpreter: Any, inputs: Any, symbols: Any) -> Any:
    names = interpreter.get_signature_list()
    if "classify" in names:
        return interpreter.get_signature_runner("classify")(inputs=inputs)["logits"]
    memory = {}
    if "encode" in names:
        encoded = interpreter.get_signature_runner("encode")(inputs=inputs)
        memory = {name: value for name, value in encoded.items() if name.startswith(_MEMORY)}
    return interpreter.get_signature_runner("step")(symbols=symbols, **memory)["logits"]


def _interpreter(content: bytes) -> Any:
    with warnings.catch_warnings():
        # It names its successor, which is a package of its own.
        warnings.simplefilter("ignore")
        return tf.lite.Interpreter(model_content=content)
