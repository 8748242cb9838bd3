"""Where a saved model lies: a folder, a place on the Hugging Face hub, or a name of those that come
with ut-tf.

::

    model_folder("models/mine")                # that folder
    model_folder("hf://user/babi")             # downloaded, or found in the hub's cache
    model_folder("babi")                       # one of shipped_models()
"""

from pathlib import Path

import ut_tf
from ut_tf.errors import UserError, did_you_mean
from ut_tf.paths import absolute
from ut_tf.sharing.hub import PREFIX, download
from ut_tf.storage.layout import CHECKPOINTS_FOLDER, CONFIG_FILE, WEIGHTS_FILE
from ut_tf.storage.model_folder import check_model_folder, holds_model

_PARTS = (CONFIG_FILE, WEIGHTS_FILE, CHECKPOINTS_FOLDER)


def model_folder(place: str | Path) -> Path:
    """The folder of a saved model, whose files are there and not too large.

    A folder comes before the name of a shipped model, unless there is nothing of a saved model or a
    run in it.

    Args:
      place: a folder, "hf://user/model" (with "@revision" if wanted), or a shipped model's name.

    Raises:
      UserError: there is no saved model, or it cannot be downloaded.
    """
    name = str(place)
    folder = download(name) if name.startswith(PREFIX) else absolute(place)
    shipped = shipped_models()
    if name in shipped and not any((folder / part).exists() for part in _PARTS):
        folder = shipped[name]
    if not folder.is_dir():
        raise UserError(
            f"`model`={name}: there is no such folder{did_you_mean(name, shipped) or '.'}"
            f" Give a saved model's folder, {PREFIX}user/model, or one of"
            f" {', '.join(shipped) or 'none that come with ut-tf'}."
        )
    check_model_folder(folder)
    return folder


def check_new(folder: Path) -> None:
    """Raises UserError where there is something already in the place of a saved model."""
    if folder.exists():
        raise UserError(f"{folder} exists: name another folder, or remove it first.")


def shipped_models() -> dict[str, Path]:
    """The models that come with ut-tf: name -> folder."""
    package = Path(ut_tf.__file__).resolve().parent
    # In an installed package, or in a checkout.
    for home in (package / "pretrained", package.parent / "models"):
        if home.is_dir():
            return {folder.name: folder for folder in sorted(home.iterdir()) if holds_model(folder)}
    return {}
