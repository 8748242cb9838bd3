"""The files of a run directory of tensor2tensor: hparams.json, flags.txt and checkpoints of
TensorFlow 1.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ut_tf.errors import UserError, did_you_mean
from ut_tf.paths import expanded
from ut_tf.storage.checkpoints import check_stored
from ut_tf.storage.files import read_bounded
from ut_tf.storage.tensorflow_paths import readable_by_tensorflow

TARGET_SPACE = "body/target_space_embedding/kernel"
_CHECKPOINT = re.compile(r"model\.ckpt-(\d+)\.index$")


def read_hparams(folder: Path) -> dict[str, Any]:
    """The content of `folder`/hparams.json.

    Raises:
      UserError: it is not there, or no JSON object.
    """
    path = folder / "hparams.json"
    try:
        values = json.loads(read_bounded(path))
    except FileNotFoundError:
        raise UserError(
            f"{path} does not exist: give the output directory of a tensor2tensor trainer."
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(
            f"{path} cannot be read ({error}): copy it again from where the run was trained."
        ) from error
    if not isinstance(values, dict):
        raise UserError(
            f"{path} holds no JSON object of hyperparameters: copy it again from where the run was"
            " trained."
        )
    return values


def named_problem(folder: Path) -> str | None:
    """The problem that the run's flags.txt or flags_t2t.txt names; None where none is
    named.
    """
    for name in ("flags_t2t.txt", "flags.txt"):
        path = folder / name
        try:
            flags = read_bounded(path).decode("utf-8", "replace")
        except FileNotFoundError:
            continue
        except OSError as error:
            raise UserError(
                f"{path} cannot be read ({error}): copy it again from where the run was trained,"
                " or give `problem`."
            ) from error
        match = re.search(r"^-{2}problem=(\S+)", flags, re.MULTILINE)
        if match:
            return match[1].strip("'\"")
    return None


def read_checkpoint(folder: Path, checkpoint: str | Path | None = None) -> dict[str, Any]:
    """Name -> array of a TensorFlow 1 checkpoint.

    Args:
      folder: of the run.
      checkpoint: its path without the endings .index and .data, absolute or in `folder`; None: the
        one of the latest step.

    Raises:
      UserError: there is none, or it cannot be read.
    """
    # Here, since the command reads hparams.json before it imports TensorFlow.
    import tensorflow as tf

    path = _newest(folder) if checkpoint is None else _named(folder, str(checkpoint))
    try:
        with readable_by_tensorflow(path) as readable:
            reader = tf.train.load_checkpoint(str(readable))
            check_stored(path, reader)
            types = reader.get_variable_to_dtype_map()
            read = [name for name, kind in types.items() if kind != tf.string]
            return {name: reader.get_tensor(name) for name in read}
    except (tf.errors.OpError, ValueError, RuntimeError, IndexError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise UserError(
            f"{path} cannot be read ({reason}): copy its .index and .data files again."
        ) from error


def trained_target_space(tensors: Mapping[str, Any]) -> int:
    """The row of the target space embedding that training moved, by Adam's second moments;
    0 where there is no embedding.

    Raises:
      UserError: the optimizer's variables do not tell.
    """
    if not any(name.endswith(TARGET_SPACE) for name in tensors):
        return 0
    for name, value in tensors.items():
        if name.endswith(f"{TARGET_SPACE}/Adam_1"):
            rows = abs(value).sum(-1).nonzero()[0]
            if len(rows) == 1:
                return int(rows[0])
    raise UserError(
        "the checkpoint does not tell which target space its problem has (no optimizer variables,"
        " or several rows trained): give `target_space_id`, tensor2tensor's SpaceID of the"
        " problem's targets."
    )


def _newest(folder: Path) -> Path:
    steps = {
        int(match[1]): path
        for path in folder.glob("model.ckpt-*.index")
        if (match := _CHECKPOINT.search(path.name))
    }
    if not steps:
        raise UserError(
            f"{folder} holds no checkpoint (model.ckpt-….index): give the output directory of a"
            " tensor2tensor trainer."
        )
    return steps[max(steps)].with_suffix("")


def _named(folder: Path, checkpoint: str) -> Path:
    plain = checkpoint.removesuffix(".index")
    for path in (expanded(plain), folder / plain):
        if path.with_name(path.name + ".index").is_file():
            return path
    there = sorted(path.name.removesuffix(".index") for path in folder.glob("*.index"))
    raise UserError(
        f"checkpoint={checkpoint}: there is no such checkpoint{did_you_mean(plain, there) or '.'}"
        f" In {folder}: {', '.join(there)}."
    )
