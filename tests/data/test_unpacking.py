"""Archives of others: nothing is extracted, and no bomb is unpacked."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import struct
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from ut_tf.data import unpacking
from ut_tf.data.corpus.parallel_text import read_lines
from ut_tf.data.unpacking import is_plain_file, open_gzip, open_tar
from ut_tf.errors import UserError
from ut_tf.problems.babi.problem import ARCHIVE, BabiQA
from ut_tf.problems.lambada.archive import find_sources
from ut_tf.problems.parsing.files import read_tree_files

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


def _bomb(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.mrg", b"(S (N dog))" + b" " * 3_000_000)


def _lie(path: Path) -> None:
    """A zip archive whose member says that it has 11 bytes."""
    _bomb(path)
    content = path.read_bytes()
    path.write_bytes(content.replace(struct.pack("<I", 3_000_011), struct.pack("<I", 11)))


def _elsewhere(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("../../outside.mrg", "(S (N dog))")
        archive.writestr("/tmp/ut_tf_outside.mrg", "(S (N dog))")


@pytest.mark.parametrize(
    ("write", "expected"), [(_bomb, "unpacks to more than"), (_lie, "Bad CRC-32"), (_elsewhere, "")]
)
def test_zip_archives(tmp_path: Path, write: Callable[[Path], None], expected: str) -> None:
    path = tmp_path / "treebank.zip"
    write(path)
    if expected:
        with pytest.raises(UserError, match=expected):
            read_tree_files([path])
    else:
        assert len(read_tree_files([path])) == 2
    assert list(tmp_path.iterdir()) == [path]
    assert not Path("/tmp/ut_tf_outside.mrg").exists()
