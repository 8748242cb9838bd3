"""Weights from files that ``torch.save`` wrote, without PyTorch, and without unpickling anything.

::

    weights = read_pth(Path("model.pth"))       # {"lm_head.weight": array, ...}

Such a file is a zip archive: ``NAME/data.pkl``, a pickle of names, sizes and places, and
``NAME/data/0``, ``NAME/data/1``, ..., the numbers. A pickle is a program. This reader knows the
opcodes that dictionaries of tensors need, and looks through the whole program before it makes
anything: another opcode, or a global that is none of the few below, refuses the file. Sizes,
strides and offsets are compared with the numbers that are there. bfloat16 becomes float32.
"""

from __future__ import annotations

import pickletools
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ut_tf.errors import UserError

MOST_BYTES = 2_000_000_000
_MOST_PROGRAM_BYTES = 64_000_000
_MOST_DIMENSIONS = 32
_STORAGES = {
    "torch FloatStorage": "<f4",
    "torch DoubleStorage": "<f8",
    "torch HalfStorage": "<f2",
    "torch BFloat16Storage": "<u2",
    "torch LongStorage": "<i8",
    "torch IntStorage": "<i4",
    "torch ShortStorage": "<i2",
    "torch CharStorage": "<i1",
    "torch ByteStorage": "<u1",
    "torch BoolStorage": "?",
}
_DICTIONARY = "collections OrderedDict"
_TENSOR = "torch._utils _rebuild_tensor_v2"
_PARAMETER = "torch._utils _rebuild_parameter"
_GLOBALS = frozenset({*_STORAGES, _DICTIONARY, _TENSOR, _PARAMETER})
_BRAIN = "torch BFloat16Storage"
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
      texts in them are left out.

    Raises:
      UserError: the file is none, holds anything but tensors in dictionaries, is damaged, or larger
        than 2 GB.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            members = _members(archive)
            program = archive.read(members["data.pkl"])
            _check_program(program)
            found = _Reader(lambda key: _stored(archive, members, key)).run(program)
        return dict(_named(found, ""))
    except RefusedError as error:
        raise UserError(
            f"{path}: {error}: expected a dictionary of tensors as torch.save writes it."
        ) from None
    except (zipfile.BadZipFile, EOFError, OSError, NotImplementedError, ValueError) as error:
        if isinstance(error, FileNotFoundError):
            raise UserError(f"there is no file {path}.") from None
        raise UserError(
            f"{path} cannot be read ({error}): expected a zip archive as torch.save writes it since"
            " version 1.6."
        ) from None


def _members(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """The members by their names within the archive's one folder."""
    members: dict[str, zipfile.ZipInfo] = {}
    folders = set()
    for info in archive.infolist():
        folder, _, name = info.filename.partition("/")
        folders.add(folder)
        if name in members:
            raise RefusedError(f"it has {name} twice")
        if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size:
            raise RefusedError(f"{name} is compressed")
        members[name] = info
    if len(folders) != 1 or "data.pkl" not in members:
        raise RefusedError("it has no data.pkl in its one folder")
    if sum(info.file_size for info in members.values()) > MOST_BYTES:
        raise RefusedError("it is larger than 2 GB")
    if members["data.pkl"].file_size > _MOST_PROGRAM_BYTES:
        raise RefusedError("its data.pkl is larger than 64 MB")
    if "byteorder" in members and archive.read(members["byteorder"]) != b"little":
        raise RefusedError("its numbers are not little-endian")
    return members


def _stored(archive: zipfile.ZipFile, members: dict[str, zipfile.ZipInfo], key: str) -> bytes:
    if f"data/{key}" not in members:
        raise RefusedError(f"it has no data/{key}")
    return archive.read(members[f"data/{key}"])


def _check_program(program: bytes) -> None:
    """Raises RefusedError unless the program is made of known opcodes and globals."""
    texts = ["", ""]
    try:
        for opcode, argument, _ in pickletools.genops(program):
            if opcode.name not in _OPCODES:
                raise RefusedError(f"its pickle has the opcode {opcode.name}")
            if opcode.name == "GLOBAL":
                _check_global(str(argument))
            if opcode.name == "STACK_GLOBAL":
                _check_global(" ".join(texts))
            if isinstance(argument, str) and opcode.name != "GLOBAL":
                texts = [texts[1], argument]
    except (ValueError, IndexError, UnicodeDecodeError) as error:
        raise RefusedError(f"its pickle is damaged ({error})") from None


def _check_global(name: str) -> None:
    if name not in _GLOBALS:
        raise RefusedError(f"its pickle asks for {name[:100]!r}")


def _named(found: Any, prefix: str) -> Iterator[tuple[str, Array]]:
    if not isinstance(found, dict):
        raise RefusedError(f"its pickle holds a {type(found).__name__.lower()}")
    for name, value in found.items():
        if not isinstance(name, str):
            raise RefusedError(f"its pickle has the key {name!r}")
        if isinstance(value, np.ndarray):
            yield f"{prefix}{name}", value
        elif isinstance(value, dict):
            yield from _named(value, f"{prefix}{name}.")
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
        if key not in self.storages:
            dtype = np.dtype(_STORAGES[kind.name])
            content = self.stored(str(key))
            if not isinstance(count, int) or count * dtype.itemsize != len(content):
                raise RefusedError(f"data/{key} has {len(content)} bytes where it counts {count}")
            self.storages[key] = _Storage(kind.name, np.frombuffer(content, dtype))
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
            if name in target:
                raise RefusedError(f"its pickle has {name!r} twice")
            target[name] = value


def _tensor(storage: Any, offset: Any, size: Any, stride: Any) -> Array:
    """The array of a part of a storage, a copy."""
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
        return np.zeros(size, np.float32)
    steps = [step * values.itemsize for step in stride]
    array = np.lib.stride_tricks.as_strided(values[offset:], size, steps, writeable=False).copy()
    if storage.kind == _BRAIN:
        return (array.astype(np.uint32) << 16).view(np.float32)
    return array


def _push(value: Callable[[], Any]) -> Callable[[_Reader, Any], None]:
    return lambda reader, _: reader.stack.append(value())


def _push_argument(reader: _Reader, argument: Any) -> None:
    reader.stack.append(argument)


def _tuple_of(count: int) -> Callable[[_Reader, Any], None]:
    return lambda reader, _: reader.stack.append(reader.take(count))


def _remember(reader: _Reader, place: Any) -> None:
    reader.memo[len(reader.memo) if place is None else place] = reader.stack[-1]


def _set_item(reader: _Reader, _: Any) -> None:
    reader.set_items(list(reader.take(2)))


def _stack_global(reader: _Reader, _: Any) -> None:
    name = " ".join(map(str, reader.take(2)))
    _check_global(name)
    reader.stack.append(_Global(name))


def _nothing(reader: _Reader, _: Any) -> None:
    """Opcodes that say how the program is stored."""


_OPCODES: dict[str, Callable[[_Reader, Any], None]] = {
    **dict.fromkeys(("PROTO", "FRAME", "STOP"), _nothing),
    **dict.fromkeys(
        (
            *("BINUNICODE", "SHORT_BINUNICODE", "BININT", "BININT1", "BININT2", "LONG1"),
            "BINFLOAT",
        ),
        _push_argument,
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
    "SETITEM": _set_item,
    "SETITEMS": lambda reader, _: reader.set_items(reader.group()),
}
