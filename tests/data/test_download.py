"""Archives: where they are looked for, and that a download is whole or absent."""

from __future__ import annotations

import hashlib
import http.server
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ut_tf.data.download import Archive, find_or_download
from ut_tf.errors import UserError

CONTENT = bytes(range(256)) * 1000
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class _Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/slow":
            time.sleep(3)
        if self.path == "/missing":
            self.send_error(404)
            return
        self.send_response(200)
        if self.path != "/endless":
            self.send_header("Content-Length", str(len(CONTENT)))
        if self.path == "/packed":
            self.send_header("Content-Encoding", "gzip, gzip")
        self.end_headers()
        self.wfile.write(CONTENT[: 1000 if self.path == "/cut" else None])

    def log_message(self, *arguments: object) -> None:
        """Keeps the tests' output clean."""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    served = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    threading.Thread(target=served.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{served.server_address[1]}"
    served.shutdown()
    served.server_close()


def archive(*urls: str, sha256: str = SHA256) -> Archive:
    return Archive("file.tar.gz", urls, sha256, advice="another problem needs none")


def test_a_file_that_the_user_put_there_is_used_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file.tar.gz").write_bytes(b"another checksum")
    assert (
        find_or_download(archive("http://127.0.0.1:9/x"), tmp_path, "problem").read_bytes()
        == b"another checksum"
    )
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert f"{tmp_path / 'file.tar.gz'} is not the published archive" in told


def test_an_empty_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "file.tar.gz").touch()
    with pytest.raises(UserError, match=r"file\.tar\.gz is empty"):
        find_or_download(archive(), tmp_path, "problem")


def test_what_a_server_calls_packed_is_kept_as_it_was_sent(server: str, tmp_path: Path) -> None:
    path = find_or_download(archive(f"{server}/packed"), tmp_path, "problem")
    assert path.read_bytes() == CONTENT


def test_downloads_where_it_is_not_there(server: str, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    # A process that was killed while it downloaded.
    (tmp_path / "new" / ".file.tar.gz.abcdefgh.partial").write_bytes(b"half")
    path = find_or_download(
        archive(f"{server}/missing", f"{server}/whole"), tmp_path / "new", "problem"
    )
    assert path == tmp_path / "new" / "file.tar.gz"
    assert path.read_bytes() == CONTENT
    assert [item.name for item in path.parent.iterdir()] == ["file.tar.gz"]


@pytest.mark.parametrize(
    ("page", "sha256", "reason"),
    [
        ("missing", SHA256, "404"),
        ("cut", SHA256, "1000 bytes|IncompleteRead"),
        ("cut", "", "1000 bytes|IncompleteRead"),
        ("whole", "0" * 64, f"sha256 is {SHA256}, expected 0000"),
    ],
)
def test_what_is_not_whole_is_not_kept(
    server: str, tmp_path: Path, page: str, sha256: str, reason: str
) -> None:
    with pytest.raises(UserError, match=reason):
        find_or_download(archive(f"{server}/{page}", sha256=sha256), tmp_path, "problem")
    assert list(tmp_path.iterdir()) == []


def test_the_message_says_where_it_looked_and_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(UserError) as error:
        find_or_download(archive("http://127.0.0.1:9/x"), tmp_path, "babi_qa")
    message = str(error.value)
    for part in (
        "babi_qa needs file.tar.gz",
        str(tmp_path),
        "http://127.0.0.1:9/x",
        "`tmp_dir`",
        "another problem needs none",
    ):
        assert part in message
    assert "\n" not in message


def test_silence_is_answered_in_time(server: str, tmp_path: Path) -> None:
    start = time.monotonic()
    with pytest.raises(UserError, match="no answer within"):
        find_or_download(
            archive(f"{server}/slow", f"{server}/slow"), tmp_path, "problem", answer_seconds=0.6
        )
    assert time.monotonic() - start < 2.5


def test_without_a_published_checksum_the_first_download_is_the_right_one(
    server: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unknown = archive(f"{server}/whole", sha256="")
    path = find_or_download(unknown, tmp_path, "problem")
    pin = tmp_path / "file.tar.gz.sha256"
    assert pin.read_text() == f"{SHA256}  file.tar.gz\n"
    assert f"sha256 of this first download is {SHA256}" in capsys.readouterr().err
    assert find_or_download(unknown, tmp_path, "problem") == path

    path.write_bytes(b"exchanged")
    with pytest.raises(UserError, match=r"has another sha256 .* than .*\.sha256 says"):
        find_or_download(unknown, tmp_path, "problem")
    path.unlink()
    find_or_download(unknown, tmp_path, "problem")
    path.unlink()
    pin.write_text("0" * 64)
    with pytest.raises(UserError, match="expected 0000"):
        find_or_download(unknown, tmp_path, "problem")
    pin.write_text("sha256")
    with pytest.raises(UserError, match="64 hexadecimal digits"):
        find_or_download(unknown, tmp_path, "problem")
    assert not path.exists()


@pytest.mark.parametrize("page", ["whole", "endless"])
def test_a_download_is_no_larger_than_it_may_be(server: str, tmp_path: Path, page: str) -> None:
    small = Archive("file", (f"{server}/{page}",), most_bytes=len(CONTENT) - 1)
    with pytest.raises(UserError, match="255,999"):
        find_or_download(small, tmp_path, "problem")
    assert list(tmp_path.iterdir()) == []
