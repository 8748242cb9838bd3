"""Trees in files: found, read, and divided into training, validation and test.

How it is used::

    read_tree_files(["wsj/02", "more.zip", "extra.mrg"])  # list[Tree], in the order of the files
    find_treebank(tmp_dir)  # a zip archive or a folder with a treebank; None: there is none
    split_treebank(path)                                      # Splits of a treebank as a whole

How it works: a treebank whose files lie in folders 02 to 21, 22 and 23 has the Wall Street
Journal's usual division: these train, validate and test. Any other, such as the sample of the Penn
Treebank that NLTK hands out, is divided by files in the order of their names: the last tenth tests,
the twentieth before it validates.
"""

import hashlib
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ut_tf.data.split_of import exclude_trained
from ut_tf.data.text.utf8 import decode_utf8
from ut_tf.data.unpacking import name_damage, read_zip_member
from ut_tf.errors import UserError, counted, file_errors
from ut_tf.problems.parsing.trees import Tree, read_trees, simplify
from ut_tf.storage.files import sha256_of

_REMEDY = "convert the file to UTF-8"
_SUFFIX = ".mrg"
_FOLDER = "treebank"
_ARCHIVE = "treebank.zip"
# tensor2tensor's files.
_NAMED = {
    "train": "parsing_train.trees",
    "validation": "parsing_dev.trees",
    "test": "parsing_test.trees",
}
_TRAIN_SECTIONS = frozenset(f"{section:02}" for section in range(2, 22))
_VALIDATION_SECTION, _TEST_SECTION = "22", "23"
_TEST_SHARE, _VALIDATION_SHARE = 0.1, 0.05


@dataclass(frozen=True)
class TreeSplits:
    """The trees of each split.

    Args:
      train, validation, test: plain trees; test may be empty.
      note: how this differs from the published benchmark; empty: it does not.
      report: a line about what was used, printed when the data is prepared.
      own: the splits besides training that are divided from it here.
    """

    train: list[Tree]
    validation: list[Tree]
    test: list[Tree]
    note: str
    report: str
    own: tuple[str, ...] = ()


def read_tree_files(paths: Iterable[Path]) -> list[Tree]:
    """The plain trees of files, folders (all their .mrg files) and zip archives (likewise), in the
    order of paths and names.

    Raises:
      UserError: a path is not there, holds no tree, is cut off, or is not of the format; names the
        file, in an archive the member, and the line.
    """
    trees = []
    for path in paths:
        trees += [tree for name, text in _texts(path) for tree in _plain(text, name)]
    return trees


def digest_of(paths: Iterable[Path]) -> str:
    """A checksum of the names and contents of all files with trees at `paths`; empty where a path
    is not there.
    """
    digest = hashlib.sha256()
    for path in paths:
        if not path.exists():
            return ""
        named = [path / name for name in _NAMED.values() if (path / name).is_file()]
        for file in named or _files(path):
            digest.update(f"{file.name} {sha256_of(file)}\n".encode())
    return digest.hexdigest()


def find_treebank(tmp_dir: Path) -> Path | None:
    """The treebank in `tmp_dir`: tensor2tensor's files, treebank.zip, or a folder treebank with
    .mrg files; None: there is none.
    """
    if (tmp_dir / _NAMED["train"]).is_file():
        return tmp_dir
    places = (tmp_dir / _ARCHIVE, tmp_dir / _FOLDER / _ARCHIVE, tmp_dir / _FOLDER)
    return next((path for path in places if path.is_file() or any(path.glob("**/*.mrg"))), None)


def split_treebank(path: Path) -> TreeSplits:
    """The splits of what ``find_treebank`` found; see the module's text.

    Raises:
      UserError: as ``read_tree_files``, or there are too few files to be divided.
    """
    if (path / _NAMED["train"]).is_file():
        return _named_files(path)
    by_file = {name: list(_plain(text, name)) for name, text in _texts(path)}
    sections = {name: _place(name).parent.name for name in by_file}
    if {*_TRAIN_SECTIONS, _VALIDATION_SECTION, _TEST_SECTION} <= {*sections.values()}:
        wanted = {
            "train": _TRAIN_SECTIONS,
            "validation": {_VALIDATION_SECTION},
            "test": {_TEST_SECTION},
        }
        parts = {
            split: [name for name in by_file if sections[name] in numbers]
            for split, numbers in wanted.items()
        }
        note = ""
        own: tuple[str, ...] = ()
    else:
        parts = _by_files(path, sorted(by_file, key=lambda name: (_place(name).name, name)))
        note, own = f"other trees: {path.name}, divided by files", ("validation", "test")
    splits = {
        split: [tree for name in names for tree in by_file[name]] for split, names in parts.items()
    }
    left_out = len(by_file) - sum(map(len, parts.values()))
    report = _report(path, splits) + (
        f"; {counted(left_out, 'file')} of other sections left out" if left_out else ""
    )
    return _of_mapping(splits, note, report, own)


def exclude_trained_trees(splits: TreeSplits) -> TreeSplits:
    """The splits; the trees divided from those for training are without sentences of these."""
    left = {
        name: exclude_trained(getattr(splits, name), splits.train, sentence_of)
        for name in splits.own
    }
    for name, trees in left.items():
        if not trees:
            raise UserError(
                f"all sentences for {name} are also trained on: name other trees by"
                " `dev_trees` and `test_trees`, or set `disjoint_splits`=false."
            )
    counts = {name: len(getattr(splits, name)) - len(trees) for name, trees in left.items()}
    told = "".join(
        f"; left out of {name}: {counted(count, 'sentence')} that training has too"
        for name, count in counts.items()
        if count
    )
    every = {name: left.get(name, getattr(splits, name)) for name in _NAMED}
    return _of_mapping(every, splits.note, splits.report + told, splits.own)


def sentence_of(tree: Tree) -> tuple[str, ...]:
    """The words of a tree."""
    return tuple(leaf.word for leaf in tree.leaves())


def _by_files(path: Path, names: list[str]) -> dict[str, list[str]]:
    tested, judged = (
        max(1, round(share * len(names))) for share in (_TEST_SHARE, _VALIDATION_SHARE)
    )
    if len(names) < 3:
        raise UserError(
            f"{path} has {counted(len(names), 'file')} with trees, too few to divide: name the"
            " files of each split by `train_trees`, `dev_trees` and `test_trees`."
        )
    first = len(names) - tested - judged
    return {
        "train": names[:first],
        "validation": names[first : first + judged],
        "test": names[first + judged :],
    }


def _named_files(folder: Path) -> TreeSplits:
    missing = [
        name for split, name in _NAMED.items() if split != "test" and not (folder / name).is_file()
    ]
    if missing:
        raise UserError(
            f"{folder} has no {missing[0]}: expected it beside {_NAMED['train']}; put it there."
        )
    splits = {
        split: read_tree_files([folder / name]) if (folder / name).is_file() else []
        for split, name in _NAMED.items()
    }
    return _of_mapping(splits, "your own trees", _report(folder, splits))


def _of_mapping(
    splits: Mapping[str, list[Tree]], note: str, report: str, own: tuple[str, ...] = ()
) -> TreeSplits:
    return TreeSplits(splits["train"], splits["validation"], splits["test"], note, report, own)


def _report(path: Path, splits: dict[str, list[Tree]]) -> str:
    return (
        f"trees of {path}: {len(splits['train'])} for training, {len(splits['validation'])} for"
        f" validation, {len(splits['test'])} for the test"
    )


def _place(name: str) -> PurePosixPath:
    """The path of a file; of one in an archive, its path in the archive."""
    return PurePosixPath(name.rpartition(":")[2])


def _plain(text: str, name: str) -> Iterator[Tree]:
    has_words = False
    for tree in read_trees(text, name):
        plain = simplify(tree)
        if plain is not None:
            has_words = True
            yield plain
    if not has_words:
        raise UserError(
            f"{name} has no tree with a word: expected trees in the Penn Treebank's brackets; put"
            " the whole file in its place."
        )


def _texts(path: Path) -> Iterator[tuple[str, str]]:
    """Yields (name, text) of each file with trees at `path`."""
    if not path.exists():
        raise UserError(
            f"there is no {path}: expected a file, a folder or a zip archive with trees; check its"
            " name."
        )
    if zipfile.is_zipfile(path) or path.suffix == ".zip":
        yield from _members(path)
        return
    files = _files(path)
    if not files:
        raise UserError(
            f"{path} has no file *.mrg: expected a folder with a treebank; name one that has them."
        )
    for file in files:
        with file_errors(file, "check its name and permissions"):
            yield str(file), decode_utf8(file.read_bytes(), str(file), _REMEDY)


def _files(path: Path) -> list[Path]:
    return (
        sorted(file for file in path.glob("**/*") if file.suffix == _SUFFIX and file.is_file())
        if path.is_dir()
        else [path]
    )


def _members(path: Path) -> Iterator[tuple[str, str]]:
    with name_damage(path, "as a zip archive"), zipfile.ZipFile(path) as archive:
        names = sorted(name for name in archive.namelist() if PurePosixPath(name).suffix == _SUFFIX)
        if not names:
            raise UserError(
                f"{path} has no file *.mrg: expected an archive with a treebank; put it in its"
                " place."
            )
        for name in names:
            content = read_zip_member(archive, name, path)
            yield f"{path}:{name}", decode_utf8(content, f"{path}:{name}", _REMEDY)
