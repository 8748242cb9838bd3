"""Archives: found where the user put them, otherwise downloaded.

How it works: a file in the temporary directory is used as it is, with a warning where its checksum
is not the published one. Otherwise each address is tried; what arrives goes to a file of another
name, which gets the archive's name only when it is whole and its checksum is right. Where nobody
has published a checksum, that of the first download is printed and kept beside the file, as
FILE.sha256; from then on, or where the user has put such a file there, it is the only right one.
"""

import concurrent.futures
import functools
import glob
import hashlib
import os
import re
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ut_tf.errors import UserError
from ut_tf.notices import note, warn
from ut_tf.storage.files import sha256_of, write_text
from ut_tf.storage.leftovers import lock, remove_abandoned

# Resolving a name has no timeout of its own, so the whole wait for a first answer, over all
# addresses, is limited too.
_ANSWER_SECONDS = 10.0
_CONNECT_SECONDS = 4.0
_STALL_SECONDS = 30.0
_PARTIAL = ".partial"
_CHUNK_BYTES = 1 << 16
_SHA256 = re.compile(rb"[0-9a-fA-F]{64}(?![0-9a-fA-F])")
_PIN_BYTES = 4096


@dataclass(frozen=True)
class Archive:
    """A file that can be downloaded.

    Args:
      file: its name in the temporary directory.
      urls: addresses that have it, in the order in which they are tried.
      sha256: checksum of the file at every address, in hexadecimal; empty: nobody has published
        one.
      most_bytes: that it may have.
      advice: what a user without the file could do instead, for the error message.
    """

    file: str
    urls: tuple[str, ...]
    sha256: str = ""
    advice: str = ""
    most_bytes: int = 2_000_000_000


def find_or_download(
    archive: Archive, tmp_dir: Path, what: str, answer_seconds: float = _ANSWER_SECONDS
) -> Path:
    """The path of the archive in `tmp_dir`, downloading it where it is not there.

    Args:
      archive: what to look for.
      tmp_dir: where it is looked for and put.
      what: the problem that needs it, for messages.
      answer_seconds: how long all addresses together may take to answer.

    Raises:
      UserError: the file found is empty or not that of its FILE.sha256, or there is none and no
        address gives it.
    """
    path = tmp_dir / archive.file
    pinned = _pinned(path)
    if path.is_file():
        if path.stat().st_size == 0:
            raise UserError(
                f"{path} is empty: expected the archive that {what} needs; delete it, or put the"
                " whole archive in its place."
            )
        _check_found(path, archive, pinned, what)
        return path
    failures = []
    for url in archive.urls:
        try:
            response = within(answer_seconds / len(archive.urls), functools.partial(_open, url))
            digest = _receive(response, archive, path, archive.sha256 or pinned)
            if not (archive.sha256 or pinned):
                _pin(path, digest)
            return path
        except (OSError, TimeoutError, ValueError) as error:
            failures.append(f"{url}: {_reason(error)}")
    advice = f"; {archive.advice}" if archive.advice else ""
    raise UserError(
        f"{what} needs {archive.file}, which is not in {tmp_dir} and could not be downloaded"
        f" ({'; '.join(failures) or 'no address'}): put the file there, or set `tmp_dir` to the"
        f" folder that has it{advice}."
    )


def check_reachable(url: str, what: str, advice: str) -> None:
    """Checks that an address answers in time, before a library tries it for minutes.

    Args:
      url: an address of what is to be downloaded.
      what: is to be downloaded, for messages.
      advice: what a user without a network could do instead.

    Raises:
      UserError: it gives no answer, or not what was asked for.
    """
    try:
        within(_ANSWER_SECONDS, functools.partial(_open, url)).close()
    except (OSError, TimeoutError, ValueError) as error:
        raise UserError(
            f"{what} is not there and cannot be downloaded ({url}: {_reason(error)}): {advice}."
        ) from error


def _check_found(path: Path, archive: Archive, pinned: str, what: str) -> None:
    """Warns where a file that is there is not the published one; raises UserError where it is not
    the one that was kept in mind.
    """
    if not (archive.sha256 or pinned):
        return
    digest = sha256_of(path)
    if pinned and digest != pinned:
        raise UserError(
            f"{path} has another sha256 ({digest}) than {_pin_file(path)} says ({pinned}): put the"
            " former file back, or delete that checksum, if you trust what is there now."
        )
    if archive.sha256 and digest != archive.sha256:
        warn(
            f"{path} is not the published archive (its sha256 is {digest}, expected"
            f" {archive.sha256}): {what} uses it as it is."
        )


def _pin_file(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")


def _pinned(path: Path) -> str:
    """The checksum that FILE.sha256 tells, as sha256sum writes it; empty: there is no such file."""
    file = _pin_file(path)
    if not file.is_file():
        return ""
    with file.open("rb") as opened:
        match = _SHA256.match(opened.read(_PIN_BYTES))
    if match is None:
        raise UserError(
            f"{file}: expected the sha256 of {path.name}, 64 hexadecimal digits: write it there as"
            " sha256sum does, or delete the file."
        )
    return match[0].decode().lower()


def _pin(path: Path, digest: str) -> None:
    file = _pin_file(path)
    write_text(file, f"{digest}  {path.name}\n")
    note(
        f"nobody has published a checksum of {path.name}; the sha256 of this first download is"
        f" {digest}, kept in {file}: a file with another one will be refused."
    )


def _open(url: str) -> Any:
    import requests

    response = requests.get(
        url,
        headers={"Accept-Encoding": "identity"},
        stream=True,
        timeout=(_CONNECT_SECONDS, _STALL_SECONDS),
    )
    response.raise_for_status()
    return response


def within(seconds: float, call: Callable[[], Any]) -> Any:
    """The result of `call`; raises TimeoutError where that takes longer (the thread is left
    to end by itself).
    """
    answer: concurrent.futures.Future[Any] = concurrent.futures.Future()

    def run() -> None:
        try:
            answer.set_result(call())
        except Exception as error:
            answer.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    if not concurrent.futures.wait([answer], seconds).done:
        raise TimeoutError(f"no answer within {seconds:.0f} seconds")
    return answer.result()


def _receive(response: Any, archive: Archive, path: Path, sha256: str) -> str:
    """Writes the response's body to `path` and returns its sha256; raises ValueError where its
    length or its checksum is wrong (`sha256` empty: any).
    """
    import tqdm

    path.parent.mkdir(parents=True, exist_ok=True)
    expected = int(response.headers.get("Content-Length", 0))
    if expected > archive.most_bytes:
        raise ValueError(f"it has {expected:,} bytes, expected at most {archive.most_bytes:,}")
    for leftover in path.parent.glob(f".{glob.escape(archive.file)}.*{_PARTIAL}"):
        remove_abandoned(leftover)
    digest, size = hashlib.sha256(), 0
    descriptor, temporary = tempfile.mkstemp(
        dir=path.parent, prefix=f".{archive.file}.", suffix=_PARTIAL
    )
    lock(descriptor)
    try:
        with (
            os.fdopen(descriptor, "wb") as file,
            tqdm.tqdm(total=expected or None, unit="B", unit_scale=True, desc=archive.file) as bar,
        ):
            for chunk in _parts(response):
                file.write(chunk)
                digest.update(chunk)
                size += len(chunk)
                bar.update(len(chunk))
                if size > archive.most_bytes:
                    raise ValueError(f"it goes on after {archive.most_bytes:,} bytes")
            file.flush()
            os.fsync(file.fileno())
        if expected and size != expected:
            raise ValueError(f"{size} bytes arrived, expected {expected}")
        if sha256 and digest.hexdigest() != sha256:
            raise ValueError(f"its sha256 is {digest.hexdigest()}, expected {sha256}")
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
        return digest.hexdigest()
    finally:
        Path(temporary).unlink(missing_ok=True)


def _parts(response: Any) -> Iterator[bytes]:
    """The response's body as it was sent: an archive is unpacked by its reader, within limits."""
    from urllib3.exceptions import HTTPError

    try:
        while chunk := response.raw.read(_CHUNK_BYTES, decode_content=False):
            yield chunk
    except HTTPError as error:
        raise OSError(_reason(error)) from error


def _reason(error: BaseException) -> str:
    """The innermost cause, which says it shortest: "Name or service not known" rather than a tower
    of wrappers.
    """
    reason: BaseException = error
    while True:
        inner = getattr(reason, "reason", None) or next(
            (item for item in reason.args if isinstance(item, BaseException)), None
        )
        if not isinstance(inner, BaseException):
            return str(reason) or type(reason).__name__
        reason = inner
