"""A saved model's folder: the weights in it, and checks before anything in it is believed.

::

    check_model_folder(folder)      # its files are there, and none is larger than a model's may be
    write_weights(folder / WEIGHTS_FILE, {"encoder/step": values})
    with open_weights(folder) as file:
        file.shapes(), file.array("encoder/step")

A folder with model.safetensors is a saved model. Others may have written it: nothing in it is code,
and no name in it leads out of it.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ut_tf.errors import UserError, file_errors
from ut_tf.storage.files import MOST_VOCABULARY_BYTES, read_bounded, sha256_of
from ut_tf.storage.layout import (
    CARD_FILE,
    CHECKPOINTS_FOLDER,
    CONFIG_FILE,
    VOCAB_FOLDER,
    WEIGHTS_FILE,
)

if TYPE_CHECKING:
    import numpy.typing as npt

WEIGHTS_DIGEST = "weights_sha256"
MEGABYTE = 1_000_000
# Bytes that a file may have: generous for this library's models, and little enough to be read.
LARGEST_FILES = {CONFIG_FILE: MEGABYTE, CARD_FILE: MEGABYTE, WEIGHTS_FILE: 8_000 * MEGABYTE}
_STORED_TYPES = ("F32", "F16")
_ADVICE = "copy or download the whole folder again"


def holds_model(folder: Path) -> bool:
    """Whether a folder is a saved model, and no run directory."""
    return (folder / WEIGHTS_FILE).is_file()


def check_model_folder(folder: Path) -> None:
    """Raises UserError where a folder lacks a saved model's files, or one of them is too large."""
    if not folder.is_dir():
        raise UserError(f"{folder} is no folder: name the folder of a saved model.")
    if (folder / CHECKPOINTS_FOLDER).is_dir() and not holds_model(folder):
        raise UserError(
            f"{folder} is a run directory and no saved model: read it with ut_tf.Run.load (commands"
            " take it as `output_dir`), or save it first with ut_tf.save."
        )
    missing = [name for name in (CONFIG_FILE, WEIGHTS_FILE) if not (folder / name).is_file()]
    if missing:
        raise UserError(f"{folder} is no saved model (no {missing[0]}): {_ADVICE}.")
    if fault := oversize(folder):
        raise UserError(f"{folder}: {fault}: it was not written by ut_tf.")


def refuse_training(folder: Path) -> None:
    """Raises UserError where a folder holds a saved model."""
    if holds_model(folder):
        raise UserError(
            f"{folder} holds a saved model, which cannot be trained: give a run an `output_dir` of"
            " its own, and this folder as `warm_start_from`."
        )


def oversize(folder: Path) -> str | None:
    """What is said of a saved model's file that is larger than one may be; None: none is."""
    for path in model_files(folder):
        name, size = path.relative_to(folder).as_posix(), path.stat().st_size
        if size > largest(name):
            return f"{name} has {size:,} bytes, and a saved model's may have {largest(name):,}"
    return None


def model_files(folder: Path) -> list[Path]:
    """The files of a saved model that lie in a folder; any others there do not count."""
    files = [folder / name for name in LARGEST_FILES]
    vocabulary = folder / VOCAB_FOLDER
    kept = sorted(vocabulary.iterdir()) if vocabulary.is_dir() else []
    return [path for path in (*files, *kept) if path.is_file()]


def copy_vocabulary(source: Path, target: Path) -> None:
    """Copies the files of a run's vocabulary folder into a new folder, where there are any; others
    may have written them.

    Raises:
      UserError: one of them, or the folder, is a link, which may lead to any file of this machine,
        or no regular file, or too large.
    """
    if not source.is_dir():
        return
    files = [path for path in source.iterdir() if path.is_symlink() or not path.is_dir()]
    for path in (source, *files):
        if path.is_symlink() or not (path.is_dir() or path.is_file()):
            raise UserError(
                f"{path} is a link or no regular file, expected a file that ut-trainer wrote: put"
                " back the file itself."
            )
        if path.stat().st_size > MOST_VOCABULARY_BYTES:
            raise UserError(
                f"{path} has {path.stat().st_size:,} bytes, expected at most"
                f" {MOST_VOCABULARY_BYTES:,}: put back the file that ut-trainer wrote."
            )
    target.mkdir()
    for path in files:
        shutil.copyfile(path, target / path.name)


def belongs(name: str) -> bool:
    """Whether a saved model has a file of that name, such as "vocab/words.txt"."""
    folder, _, file = name.rpartition("/")
    return name in LARGEST_FILES or (folder == VOCAB_FOLDER and is_plain_name(file))


def largest(name: str) -> int:
    """The bytes that the file of that name may have."""
    return LARGEST_FILES.get(name, MOST_VOCABULARY_BYTES)


def is_plain_name(name: str) -> bool:
    """Whether a name is that of a file, without a way to another folder."""
    return bool(name) and not name.startswith(".") and not set(name) & set("/\\:\0")


def trained_state(folder: Path) -> dict[str, Any]:
    """What a saved model's config.json keeps of its checkpoint; "step" is in it.

    Raises:
      UserError: config.json cannot be read, or does not say it.
    """
    path = folder / CONFIG_FILE
    try:
        state = json.loads(read_bounded(path))["trained"]
        return {**state, "step": int(state["step"])}
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise UserError(
            f"{path} does not say which step the weights are of ({error!r}): {_ADVICE}."
        ) from error


def check_weights(folder: Path) -> None:
    """Raises UserError where a saved model's weights are not those that it was saved with; models
    of version 0.4 do not tell.
    """
    digest = trained_state(folder).get(WEIGHTS_DIGEST)
    if digest is not None and sha256_of(folder / WEIGHTS_FILE) != digest:
        raise UserError(f"{folder / WEIGHTS_FILE} is not as it was saved: {_ADVICE}.")


def write_weights(path: Path, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Writes arrays by name as a safetensors file."""
    from safetensors.numpy import save_file

    # It writes an array's memory as it lies there, whatever the order of its axes.
    save_file({name: array.copy(order="C") for name, array in arrays.items()}, path)
    path.chmod(0o644)


class WeightsFile:
    """An open safetensors file, whose header has been checked against its size.

    Args:
      file: as ``safetensors.safe_open`` gives it.
    """

    def __init__(self, file: Any) -> None:
        self._file = file

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each array by name."""
        return {
            name: tuple(self._file.get_slice(name).get_shape())
            for name in self._file.keys()  # noqa: SIM118
        }

    def array(self, name: str) -> npt.NDArray[Any]:
        """The array of that name, float16 or float32."""
        values: npt.NDArray[Any] = self._file.get_tensor(name)
        return values


@contextmanager
def open_weights(folder: Path) -> Iterator[WeightsFile]:
    """Opens a saved model's weights.

    Raises:
      UserError: the file is damaged, or holds numbers of another type than a model's.
    """
    from safetensors import SafetensorError, safe_open

    path = folder / WEIGHTS_FILE
    with (
        file_errors(path, _ADVICE, also=(SafetensorError,)),
        safe_open(path, framework="np") as file,
    ):
        for name in file.keys():  # noqa: SIM118
            kind = file.get_slice(name).get_dtype()
            if kind not in _STORED_TYPES:
                raise UserError(
                    f"{path}: {name!r} is stored as {kind}, expected one of"
                    f" {', '.join(_STORED_TYPES)}: save the model anew."
                )
        yield WeightsFile(file)


def count_parameters(folder: Path) -> int:
    """The numbers in a saved model's weights, from the header of their file.

    Raises:
      UserError: the file is damaged.
    """
    with open_weights(folder) as file:
        return sum(math.prod(shape) for shape in file.shapes().values())
