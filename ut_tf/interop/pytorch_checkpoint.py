"""Weights from files that ``torch.save`` wrote, without PyTorch, and without unpickling anything.

::

    weights = read_pth(Path("model.pth"))       # {"lm_head.weight": array, ...}

Such a file is a zip archive: ``NAME/data.pkl``, a pickle of names, sizes and places, and
``NAME/data/0``, ``NAME/data/1``, ..., the numbers. A pickle is a program. This reader knows the
opcodes that dictionaries of tensors need, and looks through the whole program before it makes
anything: another opcode, or a global that is none of the few below, refuses the file. Sizes,
strides and offsets are compared with the numbers that are there. bfloat16 becomes float32.
"""

import io
import os
import pickletools
import struct
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ut_tf.errors import UserError, shown
from ut_tf.interop.stored_numbers import MOST_BYTES, bytes_of, numbers_of
from ut_tf.storage.files import open_regular

_MOST_PROGRAM_BYTES = 64_000_000
_MOST_OPCODES = 1_000_000
_MOST_DIRECTORY_BYTES = 4_000_000
_CHUNK_BYTES = 1 << 20
_MOST_DIMENSIONS = 32
_MOST_DEPTH = 10
_LONGEST_NAME = 500
_STORAGES = {
    "torch FloatStorage": "F32",
    "torch DoubleStorage": "F64",
    "torch HalfStorage": "F16",
    "torch BFloat16Storage": "BF16",
    "torch LongStorage": "I64",
    "torch IntStorage": "I32",
    "torch ShortStorage": "I16",
    "torch CharStorage": "I8",
    "torch ByteStorage": "U8",
    "torch BoolStorage": "BOOL",
}
_DICTIONARY = "collections OrderedDict"
_TENSOR = "torch._utils _rebuild_tensor_v2"
_PARAMETER = "torch._utils _rebuild_parameter"
_GLOBALS = frozenset({*_STORAGES, _DICTIONARY, _TENSOR, _PARAMETER})
Array = npt.NDArray[Any]


class _Global(NamedTuple):
    """A name that the program may use; nothing stands behind it."""

    name: str


class _Storage(NamedTuple):
    """The numbers of a member of the archive."""

    kind: str
    values: Array


class _Mark:
    """Where a group of values begins on the stack."""


class RefusedError(Exception):
    """Says what in a file is refused."""


def read_pth(path: Path) -> dict[str, Array]:
    """Reads a dictionary of tensors.

    Args:
      path: file that torch.save wrote, of version 1.6 or later.

    Returns:
      arrays by name; of dictionaries within dictionaries, names joined by points. Plain numbers and
      texts in them are left out. The arrays are read-only, and share memory as the tensors did.

    Raises:
      UserError: the file is none, holds anything but tensors in dictionaries, is damaged, or larger
        than 2 GB.
    """
    try:
        with (
            open_regular(path) as file,
            _Guarded(file) as guarded,
            zipfile.ZipFile(guarded) as archive,
        ):
            members = _members(archive, os.fstat(file.fileno()).st_size)
            program = _content(archive, members["data.pkl"])
            _check_program(program)
            found = _Reader(lambda key: _stored(archive, members, key)).run(program)
        return _arrays(found)
    except RefusedError as error:
        raise UserError(
            f"{path}: {error}: expected a dictionary of tensors as torch.save writes it."
        ) from None
    except (zipfile.BadZipFile, struct.error, EOFError, OSError, RuntimeError, ValueError) as error:
        if isinstance(error, FileNotFoundError):
            raise UserError(f"there is no file {path}.") from None
        raise UserError(
            f"{path} cannot be read ({shown(str(error))}): expected a zip archive as torch.save"
            " writes it since version 1.6."
        ) from None


class _Guarded(io.BufferedReader):
    """A file of which little is read at a time: zipfile reads an archive's list of members at once,
    and it takes ten times as much memory.
    """

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > _MOST_DIRECTORY_BYTES:
            raise RefusedError(f"its list of members has {size:,} bytes")
        return super().read(size)


def _members(archive: zipfile.ZipFile, size: int) -> dict[str, zipfile.ZipInfo]:
    """The members by their names within the archive's one folder; the file has `size` bytes."""
    members: dict[str, zipfile.ZipInfo] = {}
    folders = set()
    for info in archive.infolist():
        folder, _, name = info.filename.partition("/")
        folders.add(folder)
        if name in members:
            raise RefusedError(f"it has {shown(name)!r} twice")
        if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size:
            raise RefusedError(f"{shown(name)!r} is compressed")
        members[name] = info
    if len(folders) != 1 or "data.pkl" not in members:
        raise RefusedError("it has no data.pkl in its one folder")
    declared = sum(info.file_size for info in members.values())
    if declared > min(size, MOST_BYTES):
        raise RefusedError(f"it counts {declared:,} bytes, has {size:,}, and may have 2 GB")
    if members["data.pkl"].file_size > _MOST_PROGRAM_BYTES:
        raise RefusedError("its data.pkl is larger than 64 MB")
    if "byteorder" in members and _content(archive, members["byteorder"]) != b"little":
        raise RefusedError("its numbers are not little-endian")
    return members


def _stored(archive: zipfile.ZipFile, members: dict[str, zipfile.ZipInfo], key: str) -> bytes:
    if f"data/{key}" not in members:
        raise RefusedError(f"it has no data/{shown(key)}")
    return _content(archive, members[f"data/{key}"])


def _content(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    with archive.open(member) as file:
        return b"".join(iter(lambda: file.read(_CHUNK_BYTES), b""))


def _check_program(program: bytes) -> None:
    """Raises RefusedError unless the program is made of known opcodes and globals."""
    texts = ["", ""]
    try:
        for number, (opcode, argument, _) in enumerate(pickletools.genops(program)):
            if number == _MOST_OPCODES:
                raise RefusedError(f"its pickle has more than {_MOST_OPCODES:,} opcodes")
            if opcode.name not in _OPCODES:
                raise RefusedError(f"its pickle has the opcode {opcode.name}")
            if opcode.name == "GLOBAL":
                _check_global(str(argument))
            if opcode.name == "STACK_GLOBAL":
                _check_global(" ".join(texts))
            if isinstance(argument, str) and opcode.name != "GLOBAL":
                texts = [texts[1], argument]
    except (ValueError, IndexError, UnicodeDecodeError) as error:
        raise RefusedError(f"its pickle is damaged ({shown(str(error))})") from None


def _check_global(name: str) -> None:
    if name not in _GLOBALS:
        raise RefusedError(f"its pickle asks for {name[:100]!r}")


def _arrays(found: Any) -> dict[str, Array]:
    arrays: dict[str, Array] = {}
    for name, array in _named(found, (), set()):
        if name in arrays:
            raise RefusedError(f"its pickle has {shown(name)!r} twice")
        arrays[name] = array
    return arrays


def _named(found: Any, path: tuple[str, ...], seen: set[int]) -> Iterator[tuple[str, Array]]:
    if not isinstance(found, dict):
        raise RefusedError(f"its pickle holds a {type(found).__name__.lower()}")
    # A dictionary that is met twice may stand for endlessly many.
    if id(found) in seen or len(path) > _MOST_DEPTH:
        raise RefusedError(
            f"its pickle has a dictionary twice, or one in more than {_MOST_DEPTH} others"
        )
    seen.add(id(found))
    for key, value in found.items():
        name = ".".join((*path, key))
        if len(name) > _LONGEST_NAME:
            raise RefusedError(f"its pickle has a name of more than {_LONGEST_NAME} characters")
        if isinstance(value, np.ndarray):
            yield name, value
        elif isinstance(value, dict):
            yield from _named(value, (*path, key), seen)
        elif not isinstance(value, int | float | str | bool | None):
            raise RefusedError(f"its pickle has {name!r} that is no tensor")


@dataclass
class _Reader:
    """Runs a program whose opcodes and globals are known.

    Args:
      stored: returns the bytes of a member of the archive by its key.
    """

    stored: Callable[[str], bytes]

    def run(self, program: bytes) -> Any:
        """Returns the value that the program leaves."""
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self.storages: dict[str, _Storage] = {}
        try:
            for opcode, argument, _ in pickletools.genops(program):
                if opcode.name == "STOP":
                    break
                _OPCODES[opcode.name](self, argument)
            return self.stack.pop()
        except (IndexError, KeyError, TypeError, ValueError, RecursionError):
            raise RefusedError("its pickle is damaged") from None

    def group(self) -> list[Any]:
        """The values since the last mark, which are taken from the stack."""
        values: list[Any] = []
        while not isinstance(value := self.stack.pop(), _Mark):
            values.append(value)
        return values[::-1]

    def take(self, count: int) -> tuple[Any, ...]:
        """The last `count` values, which are taken from the stack."""
        if count > len(self.stack):
            raise IndexError
        taken = tuple(self.stack[len(self.stack) - count :])
        del self.stack[len(self.stack) - count :]
        return taken

    def persistent(self, _: Any) -> None:
        """A storage, of ("storage", kind, key, place, count)."""
        word, kind, key, _, count = self.stack.pop()
        if word != "storage" or not isinstance(kind, _Global) or kind.name not in _STORAGES:
            raise RefusedError("its pickle refers to something that is no storage")
        if not isinstance(key, str) or not isinstance(count, int):
            raise RefusedError("its pickle refers to a storage by something else than a name")
        if key not in self.storages:
            content = self.stored(key)
            if count * bytes_of(_STORAGES[kind.name]) != len(content):
                raise RefusedError(
                    f"data/{shown(key)} has {len(content)} bytes where it counts"
                    f" {shown(str(count))}"
                )
            values = numbers_of(_STORAGES[kind.name], content)
            self.storages[key] = _Storage(kind.name, values)
        if self.storages[key].kind != kind.name:
            raise RefusedError(f"its pickle takes data/{shown(key)} for numbers of two types")
        self.stack.append(self.storages[key])

    def call(self, _: Any) -> None:
        """A call of one of the known globals."""
        function, arguments = self.take(2)
        if function == _Global(_DICTIONARY) and arguments == ():
            self.stack.append({})
        elif function == _Global(_TENSOR):
            self.stack.append(_tensor(*arguments[:4]))
        elif function == _Global(_PARAMETER) and isinstance(arguments[0], np.ndarray):
            self.stack.append(arguments[0])
        else:
            raise RefusedError("its pickle calls something else than a tensor or a dictionary")

    def build(self, _: Any) -> None:
        """The attributes of a dictionary (its versions), which are left out."""
        target, attributes = self.take(2)
        if not isinstance(target, dict) or not isinstance(attributes, dict):
            raise RefusedError("its pickle sets attributes of something else than a dictionary")
        self.stack.append(target)

    def set_items(self, items: list[Any]) -> None:
        """Adds names and values, one after the other, to the dictionary on top of the stack."""
        target = self.stack[-1]
        if not isinstance(target, dict) or len(items) % 2:
            raise RefusedError("its pickle puts items into something else than a dictionary")
        for name, value in zip(items[::2], items[1::2], strict=True):
            # To compare or to show tuples within tuples may take forever.
            if not isinstance(name, str):
                raise RefusedError(f"its pickle has a {type(name).__name__.lower()} as a key")
            if name in target:
                raise RefusedError(f"its pickle has {shown(name)!r} twice")
            target[name] = value


def _tensor(storage: Any, offset: Any, size: Any, stride: Any) -> Array:
    """The array of a part of a storage, which takes no memory of its own."""
    numbers = (offset, *size, *stride)
    whole = all(isinstance(number, int) and 0 <= number <= MOST_BYTES for number in numbers)
    if not isinstance(storage, _Storage) or not whole or len(size) != len(stride):
        raise RefusedError("its pickle has a tensor of impossible sizes")
    values = storage.values
    count = 1
    for length in size:
        count *= length
    last = offset + sum((length - 1) * step for length, step in zip(size, stride, strict=True))
    # A stride of 0 repeats numbers: more of them than there are would fill the memory.
    if len(size) > _MOST_DIMENSIONS or count > len(values) or (count and last >= len(values)):
        raise RefusedError("its pickle has a tensor beyond its numbers")
    if not count:
        return np.zeros(size, values.dtype)
    # A step that is never taken may be of any length.
    steps = [
        values.itemsize * (step if length > 1 else 1)
        for length, step in zip(size, stride, strict=True)
    ]
    return np.lib.stride_tricks.as_strided(values[offset:], size, steps, writeable=False)


def _push(value: Callable[[], Any]) -> Callable[[_Reader, Any], None]:
    return lambda reader, _: reader.stack.append(value())


def _tuple_of(count: int) -> Callable[[_Reader, Any], None]:
    return lambda reader, _: reader.stack.append(reader.take(count))


def _remember(reader: _Reader, place: Any) -> None:
    reader.memo[len(reader.memo) if place is None else place] = reader.stack[-1]


def _stack_global(reader: _Reader, _: Any) -> None:
    module, last = reader.take(2)
    if not isinstance(module, str) or not isinstance(last, str):
        raise RefusedError("its pickle asks for something that has no name")
    name = f"{module} {last}"
    _check_global(name)
    reader.stack.append(_Global(name))


_OPCODES: dict[str, Callable[[_Reader, Any], None]] = {
    # They say how the program is stored.
    **dict.fromkeys(("PROTO", "FRAME", "STOP"), lambda _reader, _argument: None),
    **dict.fromkeys(
        (*("BINUNICODE", "SHORT_BINUNICODE", "BININT", "BININT1", "BININT2", "LONG1"), "BINFLOAT"),
        lambda reader, argument: reader.stack.append(argument),
    ),
    "NONE": _push(lambda: None),
    "NEWTRUE": _push(lambda: True),
    "NEWFALSE": _push(lambda: False),
    "MARK": _push(_Mark),
    "EMPTY_DICT": _push(dict),
    "EMPTY_TUPLE": _push(tuple),
    "TUPLE": lambda reader, _: reader.stack.append(tuple(reader.group())),
    "TUPLE1": _tuple_of(1),
    "TUPLE2": _tuple_of(2),
    "TUPLE3": _tuple_of(3),
    "GLOBAL": lambda reader, name: reader.stack.append(_Global(name)),
    "STACK_GLOBAL": _stack_global,
    **dict.fromkeys(("BINPUT", "LONG_BINPUT", "MEMOIZE"), _remember),
    **dict.fromkeys(
        ("BINGET", "LONG_BINGET"), lambda reader, place: reader.stack.append(reader.memo[place])
    ),
    "BINPERSID": _Reader.persistent,
    "REDUCE": _Reader.call,
    "BUILD": _Reader.build,
    "SETITEM": lambda reader, _: reader.set_items(list(reader.take(2))),
    "SETITEMS": lambda reader, _: reader.set_items(reader.group()),
}
