"""LAMBADA's files: found, opened and read, each mistake named by file and line.

How it is used::

    sources = find_sources(tmp_dir, train_files="", name="lambada_lm")
    sources.passages("validation")           # [["her", "pay", ...], ...]; None: no such file
    sources.vocabulary()                     # [("the", 10_240_123), ...], or None
    for book, words in sources.books(tokenize=False): ...

A text file beside the archive, plain or gzip, replaces the archive's own. Training text may be a
folder or a tar file of texts instead of the archive's novels.
"""

import os
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ut_tf.data.download import Archive, find_or_download
from ut_tf.data.text.line_ends import check_line_ends
from ut_tf.data.text.utf8 import decode_utf8
from ut_tf.data.unpacking import is_plain_file, name_damage, open_gzip, open_tar, tar_within
from ut_tf.errors import UserError
from ut_tf.paths import expanded
from ut_tf.problems.lambada.tokens import treebank_tokens

ARCHIVE = Archive(
    file="lambada-dataset.tar.gz",
    urls=(
        "http://clic.cimec.unitn.it/lambada/lambada-dataset.tar.gz",
        "https://zenodo.org/records/2630551/files/lambada-dataset.tar.gz",
    ),
    # Of the record at Zenodo, as tensorflow-datasets has it.
    sha256="8fbe499096ddbdcbbd0cac406861b5026fb451d15b8fe04e0e4f3d082f2ad5d7",
    advice=(
        "with the development passages alone (lambada_development_plain_text.txt) give training"
        " text of your own by `train_files`"
    ),
)
PASSAGE_FILES = {
    "validation": "lambada_development_plain_text.txt",
    "test": "lambada_test_plain_text.txt",
    "control": "lambada_control_test_data_plain_text.txt",
}
NOVELS_FILE = "train-novels.tar"
VOCABULARY_FILE = "lambada-vocab-2.txt"
_FOLDER = "lambada"
_REMEDY = "convert the file to UTF-8"
_MOST_DIGITS = 18


@dataclass(frozen=True)
class Sources:
    """The files that were found.

    Args:
      archive: the published archive, or None.
      plain: separate files that replace the archive's, by their name in the archive.
      train: folder or tar file of training texts that replaces the archive's novels, or None.
    """

    archive: Path | None
    plain: dict[str, Path] = field(default_factory=dict)
    train: Path | None = None

    @property
    def files(self) -> list[Path]:
        """The files that the data is read from; a folder of training texts counts by its files."""
        texts = [] if self.train is None else text_files(self.train)
        return [*([self.archive] if self.archive else []), *self.plain.values(), *texts]

    def passages(self, split: str) -> list[list[str]] | None:
        """The words of each passage of "validation", "test" or "control"; None where there is
        neither file nor archive.

        Raises:
          UserError: the archive lacks the file, or a line has fewer than two words.
        """
        text_and_name = self._text(PASSAGE_FILES[split])
        if text_and_name is None:
            return None
        text, name = text_and_name
        passages = [line.lower().split() for line in _lines(text, name)]
        for number, words in enumerate(passages, start=1):
            if len(words) < 2:
                raise UserError(
                    f"{name}, line {number}: {' '.join(words)!r}: expected a passage of at least"
                    " two words; correct the line."
                )
        return passages

    def vocabulary(self) -> list[tuple[str, int]] | None:
        """The words of the vocabulary file with their counts, in its order; None where there is
        neither file nor archive.

        Raises:
          UserError: the archive lacks the file, a row is not a word, a tab and a count, or a word
            has two rows.
        """
        text_and_name = self._text(VOCABULARY_FILE)
        if text_and_name is None:
            return None
        text, name = text_and_name
        rows: dict[str, int] = {}
        for number, row in enumerate(_lines(text, name), start=1):
            word, count = _vocabulary_row(row, number, name)
            if word in rows:
                raise UserError(
                    f"{name}, line {number}: {word!r} has a row before: expected each word once;"
                    " take one of the rows out."
                )
            rows[word] = count
        return list(rows.items())

    def books(self, tokenize: bool) -> Iterator[tuple[str, list[str]]]:
        """Yields name and words of each training text: of a folder by name, of a tar file in its
        order.

        Args:
          tokenize: whether one's own texts are running text, to be divided as LAMBADA's are; the
            archive's novels are divided already.

        Raises:
          UserError: there is no text, or one cannot be read.
        """
        if self.train is None:
            assert self.archive is not None
            texts, tokenize = _novels(self.archive), False
        else:
            texts = _folder_texts(self.train) if self.train.is_dir() else _tar_texts(self.train)
        empty = True
        for name, content in texts:
            text = decode_utf8(content, name, _REMEDY)
            words = treebank_tokens(text) if tokenize else text.lower().split()
            if words:
                empty = False
                yield name, words
        if empty:
            raise UserError(
                f"{self.train or self.archive} has no training text: expected files *.txt with"
                " words."
            )

    def _text(self, file: str) -> tuple[str, str] | None:
        """A file's text and its name for messages, of a separate file or of the archive's."""
        plain = self.plain.get(file)
        if plain is not None:
            return decode_utf8(_plain_content(plain), str(plain), _REMEDY), str(plain)
        if self.archive is None:
            return None
        name = f"{self.archive}:{file}"
        with name_damage(self.archive), open_tar(self.archive) as archive:
            member = _member(archive, file, self.archive)
            content = archive.extractfile(member)
            return decode_utf8(content.read() if content else b"", name, _REMEDY), name


def find_sources(tmp_dir: Path, train_files: str, name: str) -> Sources:
    """The sources in `tmp_dir` and its folder `lambada`; downloads the archive where
    passages or training text are missing.

    Args:
      tmp_dir: where files are looked for.
      train_files: folder or tar file with texts to train on, also from `tmp_dir`; empty: the
        archive's novels.
      name: of the problem, for messages.

    Raises:
      UserError: `train_files` does not exist, or the archive is needed and cannot be had.
    """
    folders = [tmp_dir / _FOLDER, tmp_dir]
    plain = {
        file: path
        for file in (*PASSAGE_FILES.values(), VOCABULARY_FILE)
        if (path := _find_plain(file, folders)) is not None
    }
    train = find_texts(tmp_dir, train_files) if train_files else None
    there = next((folder for folder in folders if (folder / ARCHIVE.file).is_file()), None)
    if there is None and train is not None and PASSAGE_FILES["validation"] in plain:
        return Sources(None, plain, train)
    return Sources(find_or_download(ARCHIVE, there or tmp_dir, name), plain, train)


def _find_plain(file: str, folders: list[Path]) -> Path | None:
    candidates = [folder / name for folder in folders for name in (file, f"{file}.gz")]
    return next((path for path in candidates if path.is_file()), None)


def find_texts(tmp_dir: Path, train_files: str) -> Path:
    """The absolute path of one's own training texts, which may also be given from `tmp_dir` or its
    folder `lambada`.

    Raises:
      UserError: they are in none of these places.
    """
    given = expanded(train_files)
    for path in (given, tmp_dir / _FOLDER / given, tmp_dir / given):
        if path.exists():
            return path.absolute()
    raise UserError(
        f"`train_files`={train_files}: neither there nor in {tmp_dir}: expected a folder or a tar"
        " file of texts (*.txt)."
    )


def text_files(train: Path) -> list[Path]:
    """The files that one's own training texts are read from: those *.txt of a folder and its
    folders, or the tar file.
    """
    if not train.is_dir():
        return [train]
    paths = [
        Path(folder) / file
        for folder, _, files in os.walk(train, onerror=_refuse)
        for file in files
        if file.endswith(".txt")
    ]
    return sorted(path for path in paths if path.is_file())


def _refuse(error: OSError) -> None:
    """Raises what os.walk passes over: an unreadable folder has texts that would be missing."""
    raise error


def _lines(text: str, name: str) -> list[str]:
    lines = text.removesuffix("\n").split("\n")
    for _ in check_line_ends((line.encode() for line in lines), name):
        pass
    return lines


def _vocabulary_row(row: str, number: int, name: str) -> tuple[str, int]:
    word, *columns = row.rstrip("\r").split("\t")
    count = columns[0].strip() if len(columns) == 1 else ""
    if not word.strip() or not count.isdecimal() or len(count) > _MOST_DIGITS:
        raise UserError(
            f"{name}, line {number}: {row[:80]!r} has {len(columns) + 1} columns: expected two, a"
            " word and its count, with a tab between; correct the line."
        )
    return word.strip(), int(count)


def _plain_content(path: Path) -> bytes:
    with name_damage(path):
        if path.suffix != ".gz":
            return path.read_bytes()
        with open_gzip(path) as file:
            return file.read()


def _folder_texts(folder: Path) -> Iterator[tuple[str, bytes]]:
    for path in text_files(folder):
        yield str(path), _plain_content(path)


def _tar_texts(path: Path) -> Iterator[tuple[str, bytes]]:
    with name_damage(path), open_tar(path) as archive:
        yield from _members(archive, str(path))


def _novels(path: Path) -> Iterator[tuple[str, bytes]]:
    with name_damage(f"{path}:{NOVELS_FILE}"), open_tar(path) as outer:
        member = _member(outer, NOVELS_FILE, path)
        content = outer.extractfile(member)
        assert content is not None
        name = f"{path}:{NOVELS_FILE}"
        with tar_within(content, member.size, name) as novels:
            yield from _members(novels, name)


def _members(archive: tarfile.TarFile, name: str) -> Iterator[tuple[str, bytes]]:
    for member in archive:
        content = None
        if is_plain_file(member) and member.name.endswith(".txt"):
            content = archive.extractfile(member)
        if content is not None:
            yield f"{name}:{member.name}", content.read()
    # Cut off between two members, or inside of a header, a tar file looks whole to tarfile; a whole
    # one ends with a block of zeros.
    assert archive.fileobj is not None
    archive.fileobj.seek(archive.offset)
    if archive.fileobj.read(tarfile.BLOCKSIZE) != tarfile.NUL * tarfile.BLOCKSIZE:
        raise tarfile.ReadError("it has no end")


def _member(archive: tarfile.TarFile, file: str, path: Path) -> tarfile.TarInfo:
    """The archive's member of that name, in whatever folder; reads the whole list, and so finds out
    where it is cut off.
    """
    members = [
        member
        for member in archive.getmembers()
        if is_plain_file(member) and Path(member.name).name == file
    ]
    if not members:
        raise UserError(
            f"{path} has no {file}: expected LAMBADA's own archive; put that in its place, or the"
            f" file {file} beside it."
        )
    return members[0]
