"""A trained run as a SavedModel that takes raw text and returns raw text, in the layout that
TensorFlow Serving reads.

Example::

    folder = export_run(Run.load("runs/ende"), Path("exports/ende"),
        decode=DecodeConfig(beam_size=4))     # exports/ende/1

How it works: the model's weights are stored as plain variables beside the codec's tables
(``Servable``); each signature is traced, run once on a sample text, and saved. Everything is
written beside the final place under a name that TensorFlow Serving passes over, and renamed when it
is complete, so that a server that watches the directory never loads half a model.
"""

import dataclasses
import datetime
import importlib.metadata
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from ut_tf.errors import UserError, did_you_mean
from ut_tf.inference.translator import check_vocabulary
from ut_tf.run import Run
from ut_tf.run_config import installed_versions, portable_arguments
from ut_tf.run_weights import load_checkpoint
from ut_tf.search.config import DecodeConfig
from ut_tf.serving.signatures import DEFAULT, Servable, Signature
from ut_tf.serving.slots import START, STEP
from ut_tf.serving.versions import ADVICE, SUMMARY_FILE, new_version, written_version
from ut_tf.serving.warmup import Request, write_warmup
from ut_tf.serving.weights import StoredForm, StoredWeights
from ut_tf.storage.disk_errors import disk_errors

# Operations that call back into the Python process that traced them: no other process can run them.
_PYTHON_OPS = frozenset({"PyFunc", "PyFuncStateless", "EagerPyFunc"})
_POLICIES = {"float32": "float32", "bfloat16": "mixed_bfloat16"}
# What a SavedModel holds besides its weights, about.
_GRAPH_BYTES = 4_000_000
_SAMPLE = "1 2 3"

# Options of decoding that say how files are read and written.
_OF_FILES = ("batch_size", "write_beam_scores")


def export_run(
    run: Run,
    export_dir: Path,
    checkpoint: str = "best",
    decode: DecodeConfig | None = None,
    dtype: Literal["float32", "bfloat16"] = "float32",
    quantize: Literal["", "int8"] = "",
    signatures: Sequence[str] = (),
    warmup: bool = True,
    version: int | None = None,
) -> Path:
    """Writes ``<export_dir>/<version>``, a SavedModel of a run, from the run directory alone.

    Args:
      run: trained; its problem has a text form.
      export_dir: holds the versions of one served model; made where it is not there.
      checkpoint: as for ``find_checkpoint``; the moving average of the weights, where there is one.
      decode: how serving_default decodes; None: DecodeConfig().
      dtype: in which the model computes and in which its matrices are stored. Softmax, scores and
        halting are float32 in any case.
      quantize: "int8": matrices are stored as int8 with a float32 scale per channel; computation is
        in `dtype`.
      signatures: names of those to export; none: all that the problem has.
      warmup: whether to write requests that TensorFlow Serving runs when it loads the model.
      version: number of the version; None: one more than the highest in `export_dir`.

    Returns:
      The folder of the version.

    Raises:
      UserError: the version exists, an argument cannot be, the checkpoint, the problem's text form
        or the vocabulary of the training cannot be had, or the graph holds operations that only
        this Python process can run.
    """
    _check(dtype, quantize)
    folder = new_version(export_dir, version)
    codec = run.text_codec()
    hparams = run.hparams.change(dtype_policy=_POLICIES[dtype])
    check_vocabulary(codec, run)
    loaded = load_checkpoint(dataclasses.replace(run, hparams=hparams), checkpoint)
    form: StoredForm = quantize or dtype
    config = DecodeConfig() if decode is None else decode
    assert run.spec is not None
    servable = Servable(
        loaded.model, codec, run.spec, config, StoredWeights(loaded.model, form), seed=run.seed
    )
    names = _known(servable, signatures)
    chosen = servable.signatures(name for name in names if name not in (START, STEP))
    requests = [_tried(name, signature) for name, signature in chosen.items()]
    if {START, STEP} & set(names):
        chosen |= servable.slots()
    summary = {
        **origin(run, checkpoint, loaded.step),
        "decode": {
            name: value for name, value in config.to_dict().items() if name not in _OF_FILES
        },
        "dtype": dtype,
        "quantize": quantize or None,
        "signatures": {name: _names(signature) for name, signature in chosen.items()},
        **({"fields_of_lines": [*codec.fields_of_lines]} if codec.fields_of_lines else {}),
        **({"board": codec.board._asdict()} if codec.board else {}),
        **({"classes": servable.classes()} if run.spec.targets == "class" else {}),
    }
    with disk_errors(export_dir, servable.weights.size_bytes + _GRAPH_BYTES, ADVICE):
        _write(folder, servable, chosen, requests if warmup else [], run.problem, summary)
    return folder


def write_summary(path: Path, summary: dict[str, Any]) -> None:
    """Writes what a folder holds, as JSON."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")


def saved_operations(folder: Path) -> set[str]:
    """The names of all operations in a SavedModel's graph and in the functions it calls."""
    saved = saved_model_pb2.SavedModel.FromString((folder / "saved_model.pb").read_bytes())
    names: set[str] = set()
    for meta_graph in saved.meta_graphs:
        graph = meta_graph.graph_def
        own = {function.signature.name for function in graph.library.function}
        bodies = [graph.node, *(function.node_def for function in graph.library.function)]
        names |= {node.op for body in bodies for node in body} - own
    return names


def _check(dtype: str, quantize: str) -> None:
    if dtype not in _POLICIES:
        raise UserError(f"`dtype`={dtype}: expected one of {', '.join(_POLICIES)}.")
    if quantize not in ("", "int8"):
        raise UserError(f"`quantize`={quantize}: expected int8, or nothing.")


def _known(servable: Servable, names: Sequence[str]) -> tuple[str, ...]:
    for name in names:
        if name not in servable.names:
            near = did_you_mean(name, servable.names) or "."
            raise UserError(
                f"`signatures`: this problem has no signature {name!r}{near} It has"
                f" {', '.join(servable.names)}."
            )
    if names and not {*names} - {START, STEP}:
        raise UserError(
            f"`signatures`={','.join(names)}: {START} and {STEP} take the steps of another"
            f" signature: name {DEFAULT} as well."
        )
    return tuple(names) or servable.names


def _tried(name: str, signature: Signature) -> Request:
    """Answers a sample request before anything is written, to show faults; returns the request."""
    signature.function(*(tf.constant([_SAMPLE]) for _ in signature.inputs))
    return name, {field: [_SAMPLE] for field in signature.inputs}


def _names(signature: Signature) -> dict[str, list[str]]:
    return {
        "inputs": list(signature.inputs),
        "outputs": sorted(signature.function.structured_outputs),
    }


def origin(run: Run, checkpoint: str, step: int) -> dict[str, Any]:
    """What an exported model was made from, for its summary."""
    return {
        "problem": run.problem,
        "problem_args": portable_arguments(run.problem, run.problem_args),
        "hparams_set": run.hparams_set,
        "overrides": run.overrides,
        "model": run.hparams.model,
        "checkpoint": {"asked": Path(checkpoint).name, "step": step},
        "exported": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "versions": {**installed_versions(), **_text_version()},
    }


def _text_version() -> dict[str, str]:
    try:
        return {"tensorflow_text": importlib.metadata.version("tensorflow-text")}
    except importlib.metadata.PackageNotFoundError:
        return {}


def _write(
    folder: Path,
    servable: Servable,
    chosen: dict[str, Signature],
    requests: Sequence[Request],
    model_name: str,
    summary: dict[str, Any],
) -> None:
    with written_version(folder) as temporary:
        tf.saved_model.save(
            servable,
            str(temporary),
            signatures={name: signature.function for name, signature in chosen.items()},
        )
        summary = {**summary, "other_operations": _other_operations(temporary)}
        write_summary(temporary / SUMMARY_FILE, summary)
        if requests:
            write_warmup(temporary, model_name, requests)


def _other_operations(folder: Path) -> list[str]:
    """The operations of a SavedModel that are not TensorFlow's own: whoever loads it must
    have them (tensorflow-text's).

    Raises:
      UserError: there are some that no other process can have.
    """
    operations = saved_operations(folder)
    python_only = sorted(operations & _PYTHON_OPS)
    if python_only:
        raise UserError(
            f"the graph holds {', '.join(python_only)}, which only the Python process that made it"
            " can run: write the problem's text_codec, and the model, with TensorFlow's operations"
            " (no tf.py_function, no tf.numpy_function)."
        )
    return sorted(name for name in operations if not hasattr(tf.raw_ops, name))
