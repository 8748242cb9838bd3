"""A trained run as a saved model: a folder with weights, configuration, vocabulary and card.

::

    save(Run.load("runs/babi"), "models/babi", license="apache-2.0")
    ut_tf.load("models/babi").answer(story, question)

The weights are a safetensors file, which cannot hold code and which other programs read. The folder
is written beside its place and renamed when it is complete.
"""

import json
import math
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ut_tf.argument_types import checked_types
from ut_tf.data.problem import Problem
from ut_tf.errors import UserError
from ut_tf.paths import absolute
from ut_tf.run import Run
from ut_tf.run_config import portable_arguments, read_values, with_digest
from ut_tf.run_weights import load_checkpoint, named_weights
from ut_tf.sharing.card import Stored, model_card
from ut_tf.sharing.places import check_new
from ut_tf.storage.disk_errors import disk_errors
from ut_tf.storage.files import sha256_of, write_text
from ut_tf.storage.layout import CARD_FILE, CONFIG_FILE, VOCAB_FOLDER, WEIGHTS_FILE
from ut_tf.storage.leftovers import filled_beside
from ut_tf.storage.model_folder import (
    WEIGHTS_DIGEST,
    copy_vocabulary,
    largest,
    oversize,
    write_weights,
)

StoredType = Literal["float32", "float16"]

# What config.json keeps of the checkpoint's state.
_OF_STATE = ("step", "evaluated_step", "metrics")


@checked_types
def save(
    run: Run,
    folder: str | Path,
    checkpoint: str = "best",
    dtype: StoredType = "float32",
    license: str | None = None,
) -> Path:
    """Writes a run as a saved model and returns its folder.

    Args:
      run: trained.
      folder: to be made; its name is the model's.
      checkpoint: as for ``find_checkpoint``; the moving average of the weights, where there is one.
      dtype: in which weights are stored; they are float32 again when they are loaded.
      license: of the weights, as the hub names it ("apache-2.0"); None: the card names none.

    Raises:
      UserError: `folder` exists, there is no such checkpoint, a vocabulary file is not as it was
        written, a weight is too large for float16, or a file larger than a saved model's may be.
    """
    folder = absolute(folder)
    if dtype not in ("float32", "float16"):
        raise UserError(f"`dtype`={dtype}: expected float32 or float16.")
    check_new(folder)
    loaded = load_checkpoint(run, checkpoint)
    variables = named_weights(loaded.model)
    count = sum(math.prod(variable.shape) for variable in variables.values())
    _check_size(folder, count * np.dtype(dtype).itemsize, dtype)
    arrays = {name: _stored(name, values, dtype) for name, values in variables.items()}
    state = loaded.state
    config = _portable_config(run, {name: state[name] for name in _OF_STATE if name in state})
    has_texts = type(run.make_problem()).text_codec is not Problem.text_codec
    stored = Stored(
        name=folder.name,
        step=loaded.step,
        parameters=count,
        dtype=dtype,
        license=license,
        versions=config.get("versions", {}),
        fields=run.text_codec().fields if has_texts else (),
        validated=state.get("metrics", {}) if state.get("evaluated_step") == loaded.step else {},
    )
    with disk_errors(folder, sum(array.nbytes for array in arrays.values())):
        _write(folder, run, arrays, config, model_card(run, stored))
    return folder


def _check_size(folder: Path, size: int, dtype: StoredType) -> None:
    """Raises UserError where weights of that many bytes could not be read again."""
    if size > largest(WEIGHTS_FILE):
        halved = "give `dtype`=float16, or " if dtype == "float32" else ""
        raise UserError(
            f"{folder} is not written, since it could not be read again: {WEIGHTS_FILE} has"
            f" {size:,} bytes, and a saved model's may have {largest(WEIGHTS_FILE):,};"
            f" {halved}train a smaller network."
        )


def _stored(name: str, variable: Any, dtype: StoredType) -> npt.NDArray[Any]:
    values: npt.NDArray[Any] = np.asarray(variable, np.float32)
    greatest = float(np.abs(values).max(initial=0.0))
    if dtype == "float16" and greatest > np.finfo(np.float16).max:
        raise UserError(f"`dtype`=float16: {name} has the value {greatest:.3g}; store float32.")
    return values.astype(dtype)


def _portable_config(run: Run, state: dict[str, Any]) -> dict[str, Any]:
    """The values of the run's config.json without the folders of this machine."""
    return {
        **(read_values(run.output_dir) or {}),
        "hparams": run.hparams.to_dict(),
        "problem_args": portable_arguments(run.problem, run.problem_args),
        "data_dir": "",
        "tmp_dir": "",
        "usr_dir": None,
        "own_code": run.usr_dir is not None,
        "trained": state,
    }


def _write(
    folder: Path, run: Run, arrays: dict[str, npt.NDArray[Any]], config: dict[str, Any], card: str
) -> None:
    with filled_beside(folder) as temporary:
        write_weights(temporary / WEIGHTS_FILE, arrays)
        copy_vocabulary(run.vocab_dir, temporary / VOCAB_FOLDER)
        digest = sha256_of(temporary / WEIGHTS_FILE)
        config = with_digest({**config, "trained": {**config["trained"], WEIGHTS_DIGEST: digest}})
        write_text(temporary / CONFIG_FILE, json.dumps(config, indent=2) + "\n")
        write_text(temporary / CARD_FILE, card)
        if fault := oversize(temporary):
            raise UserError(
                f"{folder} is not written, since it could not be read again: {fault};"
                " save a smaller network or vocabulary."
            )
        temporary.rename(folder)
