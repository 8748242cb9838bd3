"""Archives: where they are looked for, and that a download is whole or absent."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import http.server
import io
import lzma
import tarfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ut_tf.data import unpacking
from ut_tf.data.corpus.parallel_text import read_lines
from ut_tf.data.download import Archive, find_or_download
from ut_tf.data.unpacking import is_plain_file, open_gzip, open_tar
from ut_tf.errors import UserError
from ut_tf.problems.babi.problem import ARCHIVE, BabiQA
from ut_tf.problems.lambada.archive import find_sources

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


STORY = b"1 Mary went to the hall.\n2 Where is Mary?\thall\t1\n"
NAME = "tasks_1-20_v1-2/en/qa1_single-supporting-fact_train.txt"
PACKERS = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress, "tar": bytes}


@pytest.fixture(autouse=True)
def small_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpacking, "_LEAST", 300_000)


def member(name: str, content: bytes = STORY, **fields: object) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for field, value in fields.items():
        setattr(info, field, value)
    return info, content


def tar_of(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for info, content in members:
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def test_only_files_of_the_archive_itself_are_read_and_nothing_is_written(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(STORY.replace(b"hall", b"vault"))
    folder = tmp_path / "archives"
    folder.mkdir()
    elsewhere = {"type": tarfile.SYMTYPE, "linkname": str(secret)}
    content = tar_of(
        member(f"../../{NAME}"),
        member(f"/{NAME.replace('train', 'test')}"),
        member("../outside"),
        member("/tmp/ut_tf_outside"),
        member(f"link/{NAME}", b"", **elsewhere),
        member(f"hard/{NAME}", b"", type=tarfile.LNKTYPE, linkname=str(secret)),
        member(f"device/{NAME}", b"", type=tarfile.CHRTYPE, devmajor=1, devminor=5),
        member(f"pipe/{NAME}", b"", type=tarfile.FIFOTYPE),
    )
    (folder / ARCHIVE.file).write_bytes(gzip.compress(content))
    stories = BabiQA(tasks=1, size="1k").stories(folder)
    assert {story.answers[0] for split in stories.values() for story in split} == {"hall"}
    written = {path.name for path in tmp_path.rglob("*")}
    assert written == {"archives", "secret", ARCHIVE.file}
    assert not Path("/tmp/ut_tf_outside").exists()


@pytest.mark.parametrize("kind", ["gz", "bz2", "xz"])
@pytest.mark.parametrize("name", [NAME, "padding"])
def test_a_bomb_is_refused(tmp_path: Path, kind: str, name: str) -> None:
    bomb = PACKERS[kind](tar_of(member(name, bytes(3_000_000))))
    assert len(bomb) < 5000
    (tmp_path / ARCHIVE.file).write_bytes(bomb)
    with pytest.raises(UserError, match=r"unpacks to more than [\d,]+ bytes"):
        BabiQA(tasks=1, size="1k").stories(tmp_path)


def test_a_packed_tar_inside_a_tar_has_the_same_bounds(tmp_path: Path) -> None:
    inner = gzip.compress(tar_of(member("novel.txt", bytes(40_000_000))))
    path = tmp_path / "lambada-dataset.tar.gz"
    path.write_bytes(gzip.compress(tar_of(member("train-novels.tar", inner))))
    with pytest.raises(UserError, match=r"train-novels\.tar unpacks to more than"):
        list(find_sources(tmp_path, "", "lambada_lm").books(tokenize=False))


@pytest.mark.parametrize("kind", PACKERS)
def test_a_size_that_is_only_declared_takes_no_memory(tmp_path: Path, kind: str) -> None:
    info = tarfile.TarInfo("large.txt")
    info.size = 2**45
    path = tmp_path / "archive"
    path.write_bytes(PACKERS[kind](info.tobuf(tarfile.GNU_FORMAT) + b"short"))
    with pytest.raises((UserError, tarfile.ReadError)), open_tar(path) as archive:
        for found in archive:
            file = archive.extractfile(found)
            assert file is not None
            file.read()


def test_holes_of_a_sparse_file_are_no_content(tmp_path: Path) -> None:
    info = tarfile.TarInfo("sparse.txt")
    info.type = tarfile.GNUTYPE_SPARSE
    header = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    # One part of no bytes at 2^33, and a real size of 2^33.
    header[386:410] = b"100000000000" + b"000000000000"
    header[483:495] = b"100000000000"
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    path = tmp_path / "archive.tar"
    path.write_bytes(bytes(header) + bytes(1024))
    with open_tar(path) as archive:
        (found,) = archive
        assert found.size == 2**33
        assert not is_plain_file(found)


def test_lines_are_read_up_to_the_bound(tmp_path: Path) -> None:
    path = tmp_path / "lines.gz"
    path.write_bytes(gzip.compress(b"a line\n" * 40_000))
    assert sum(1 for _ in read_lines(path)) == 40_000
    path.write_bytes(gzip.compress(bytes(10_000_000)))
    with pytest.raises(UserError, match="unpack it yourself"):
        list(read_lines(path))
    with pytest.raises(UserError, match="unpacks to more"), open_gzip(path) as file:
        file.read()
