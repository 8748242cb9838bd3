"""Saved models on the Hugging Face hub, by way of huggingface_hub (the extra [hub]).

::

    folder = download("hf://user/babi@main")
    upload(Path("models/mine"), "hf://user/mine")          # needs a token: `hf auth login`

Only a saved model's own files are fetched, each within its bounds; HF_ENDPOINT names another hub.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ut_tf.errors import UserError
from ut_tf.packages import imported
from ut_tf.storage.model_folder import belongs, check_model_folder, largest, model_files

PREFIX = "hf://"
_PLACE = re.compile(r"hf://(?P<repository>[\w.-]+/[\w.-]+)(@(?P<revision>[\w./-]+))?")
# The names are given on as patterns of a shell.
_PLAIN = re.compile(r"[\w.-]+(/[\w.-]+)?")


def download(place: str) -> Path:
    """Fetches a saved model, or finds it in the hub's cache, and returns its folder.

    Args:
      place: "hf://user/model", or with a branch, tag or commit "hf://user/model@revision".

    Raises:
      UserError: `place` is of another form, there is no such model, it is too large, the hub cannot
        be reached, or huggingface_hub is not installed.
    """
    repository, revision = _parsed(place)
    hub = _hub()
    with _readable_errors(place, "downloaded"):
        info = hub.HfApi().model_info(repository, revision=revision, files_metadata=True)
    names = [
        _checked(place, file)
        for file in info.siblings or ()
        if belongs(file.rfilename) and _PLAIN.fullmatch(file.rfilename)
    ]
    with _readable_errors(place, "downloaded"):
        return Path(hub.snapshot_download(repository, revision=info.sha, allow_patterns=names))


def upload(folder: Path, place: str) -> str:
    """Puts a saved model on the hub, into a repository that is made where it is not there; returns
    the page of the commit.

    Args:
      folder: of the saved model; other files in it stay.
      place: "hf://user/model", or with a branch "hf://user/model@branch".

    Raises:
      UserError: `folder` holds no saved model, `place` is of another form, the hub cannot be
        reached or refuses, or huggingface_hub is not installed.
    """
    repository, revision = _parsed(place)
    check_model_folder(folder)
    names = [path.relative_to(folder).as_posix() for path in model_files(folder)]
    hub = _hub()
    with _readable_errors(place, "uploaded"):
        api = hub.HfApi()
        api.create_repo(repository, exist_ok=True)
        commit = api.upload_folder(
            repo_id=repository,
            folder_path=folder,
            allow_patterns=names,
            revision=revision,
            commit_message="A model of ut-tf",
        )
    return str(commit.commit_url)


def check_place(place: str) -> None:
    """Raises UserError where `place` is of another form than ``upload`` takes, or huggingface_hub
    is not installed.
    """
    _parsed(place)
    _hub()


def _parsed(place: str) -> tuple[str, str | None]:
    match = _PLACE.fullmatch(place)
    if match is None:
        raise UserError(f"`model`={place}: expected hf://user/model or hf://user/model@revision.")
    return match["repository"], match["revision"]


def _hub() -> Any:
    return imported("huggingface_hub", "models on the Hugging Face hub need")


def _checked(place: str, file: Any) -> str:
    """The name of a file on the hub, whose size is that of a saved model's."""
    name, size = str(file.rfilename), file.size
    if not isinstance(size, int) or size > largest(name):
        raise UserError(
            f"{place}: {name} has {size} bytes, and a saved model's may have {largest(name)}: it"
            " was not written by ut_tf."
        )
    return name


@contextmanager
def _readable_errors(place: str, done: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        # Which classes of errors there are depends on huggingface_hub's version and transport.
        reason = str(error).strip().partition("\n")[0] or "no reason given"
        raise UserError(
            f"{place} cannot be {done} ({type(error).__name__}: {reason}): check the name and the"
            " network, and for a private model your token (hf auth login)."
        ) from error
