"""Weights of torch.save: real files, values by hand, and files that want to do something."""

from __future__ import annotations

import json
import os
import pickle
import struct
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ut_tf.errors import UserError
from ut_tf.interop.pytorch_checkpoint import read_pth
from ut_tf.interop.safetensors_file import read_safetensors
from ut_tf.interop.weights_file import weights_file

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "recursive"
NUMBERS = np.arange(6, dtype="<f4")


def short(text: str) -> bytes:
    """The opcode of a text."""
    return b"X" + struct.pack("<I", len(text)) + text.encode()


def storage(kind: str = "FloatStorage", key: str = "0", count: int = 6) -> bytes:
    words = short("storage") + f"ctorch\n{kind}\n".encode() + short(key) + short("cpu")
    return b"(" + words + integer(count) + b"tQ"


def integer(value: int) -> bytes:
    return b"J" + struct.pack("<i", value)


def whole(*values: int) -> bytes:
    return b"(" + b"".join(map(integer, values)) + b"t"


def tensor(
    size: tuple[int, ...] = (2, 3),
    stride: tuple[int, ...] = (3, 1),
    offset: int = 0,
    kept: bytes | None = None,
) -> bytes:
    hooks = b"ccollections\nOrderedDict\n)R"
    arguments = (storage() if kept is None else kept) + integer(offset) + whole(*size)
    return (
        b"ctorch._utils\n_rebuild_tensor_v2\n("
        + arguments
        + whole(*stride)
        + b"\x89"
        + hooks
        + b"tR"
    )


def program(value: bytes, name: str = "w") -> bytes:
    return b"\x80\x02}" + short(name) + value + b"s."


def written(folder: Path, content: bytes, data: dict[str, bytes] | None = None) -> Path:
    path = folder / "model.pth"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("model/data.pkl", content)
        for key, values in (data or {"0": NUMBERS.tobytes()}).items():
            archive.writestr(f"model/data/{key}", values)
    return path


@pytest.mark.parametrize(
    ("name", "count", "total"),
    [
        ("trm_attention", 15, -32.862788303063),
        ("trm_mlp", 15, -17.748268078175),
        ("trm_training", 15, -58.507796697477),
        ("hrm_two_levels", 23, -38.242988865589),
    ],
)
def test_all_numbers_of_a_checkpoint_are_read(name: str, count: int, total: float) -> None:
    weights = read_pth(GOLDEN / f"{name}.pth")
    assert len(weights) == count
    # The totals come from the numbers in the archive, unpacked with struct.
    assert sum(values.sum(dtype=np.float64) for values in weights.values()) == pytest.approx(
        total, abs=1e-9
    )


def test_a_tensor_by_hand(tmp_path: Path) -> None:
    found = read_pth(written(tmp_path, program(tensor())))
    np.testing.assert_array_equal(found["w"], NUMBERS.reshape(2, 3))


def test_views_are_read_by_their_strides(tmp_path: Path) -> None:
    found = read_pth(written(tmp_path, program(tensor((2, 2), (1, 3), 1))))
    np.testing.assert_array_equal(found["w"], [[1.0, 4.0], [2.0, 5.0]])


def test_bfloat16_becomes_float32(tmp_path: Path) -> None:
    values = np.array([1.5, -2.0, 3.140625], np.float32)
    halves = (values.view(np.uint32) >> 16).astype("<u2")
    kept = storage("BFloat16Storage", count=3)
    path = written(tmp_path, program(tensor((3,), (1,), kept=kept)), {"0": halves.tobytes()})
    np.testing.assert_array_equal(read_pth(path)["w"], values)


def test_tied_weights_share_memory(tmp_path: Path) -> None:
    twice = b"\x80\x02}(" + short("a") + tensor() + short("b") + tensor((6,), (1,)) + b"u."
    found = read_pth(written(tmp_path, twice))
    assert np.shares_memory(found["a"], found["b"])
    assert not found["a"].flags.writeable


def test_values_of_bool_and_empty_tensors(tmp_path: Path) -> None:
    kept = storage("BoolStorage", count=3)
    path = written(tmp_path, program(tensor((3,), (1,), kept=kept)), {"0": b"\0\1\2"})
    assert read_pth(path)["w"].tolist() == [False, True, True]
    kept = storage("LongStorage", count=0)
    path = written(tmp_path, program(tensor((0, 5), (5, 1), kept=kept)), {"0": b""})
    assert read_pth(path)["w"].shape == (0, 5) and read_pth(path)["w"].dtype == np.int64


def refused(path: Path, what: str) -> None:
    with pytest.raises(UserError, match=what) as error:
        read_pth(path)
    assert str(path) in str(error.value) and "\n" not in str(error.value)


class Harm:
    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        return os.system, ("touch harmed",)


@pytest.mark.parametrize("protocol", range(5))
def test_a_pickle_that_calls_something_calls_nothing(
    protocol: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    refused(written(tmp_path, pickle.dumps({"w": Harm()}, protocol)), "its pickle")
    assert [path.name for path in tmp_path.iterdir()] == ["model.pth"]


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (program(b"cbuiltins\neval\n" + b"(" + short("1") + b"tR"), "asks for 'builtins eval'"),
        (program(short("builtins") + short("eval") + b"\x93"), "asks for 'builtins eval'"),
        (program(b"ctorch._utils\n_rebuild_tensor_v2\n)R"), "damaged|impossible|calls"),
        (program(b"(ios\nsystem\n"), "opcode INST"),
        (program(b"\x82\x01"), "opcode EXT1"),
        (program(tensor() + b"}b"), "sets attributes"),
        (program(b"(" + short("a") + b"tQ"), "damaged|no storage"),
        (program(tensor((7,), (1,))), "beyond its numbers"),
        (program(tensor((2,), (6,))), "beyond its numbers"),
        (program(tensor((2, 3), (3, 1), 1)), "beyond its numbers"),
        (program(tensor((1000,), (0,))), "beyond its numbers"),
        (program(tensor((-1,), (1,))), "impossible sizes"),
        (program(tensor((2,), (-1,), 5)), "impossible sizes"),
        (program(tensor(kept=storage(count=7))), "24 bytes where it counts 7"),
        (program(tensor(kept=storage(key="9"))), "no data/9"),
        (program(storage()), "no tensor"),
        (b"\x80\x02}(" + 2 * (short("w") + tensor()) + b"u.", "'w' twice"),
        (b"\x80\x02]q\x00.", "opcode EMPTY_LIST"),
        (b"\x80\x02X\x01\x00\x00\x00a.", "holds a str"),
        (b"\x80\x02}q\x00" + short("a") + b"h\x00s.", "a dictionary twice"),
        (program(tensor(), "a" * 501), "more than 500 characters"),
        (
            b"\x80\x02}("
            + short("a")
            + b"}"
            + short("b")
            + tensor()
            + b"s"
            + short("a.b")
            + tensor()
            + b"u.",
            "'a.b' twice",
        ),
        (b"\x80\x02" + b"}" * 1_000_001 + b".", "more than 1,000,000 opcodes"),
        (b"\x80\x02})" + tensor() + b"s.", "a tuple as a key"),
        (
            program(
                b"(" + short("storage") + b"ctorch\nFloatStorage\n)" + short("cpu") + b"K\x06tQ"
            ),
            "something else than a name",
        ),
        (
            b"\x80\x02}("
            + short("a")
            + tensor()
            + short("b")
            + tensor(kept=storage("IntStorage"))
            + b"u.",
            "numbers of two types",
        ),
        (b"", "damaged"),
        (b"\x80\x02", "damaged"),
    ],
)
def test_what_is_refused(content: bytes, what: str, tmp_path: Path) -> None:
    refused(written(tmp_path, content), what)


def test_archives_that_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.pth"
    refused(path, "there is no file")
    path.write_bytes(pickle.dumps({}))
    refused(path, "since version 1.6")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("model/data.pkl", program(tensor()) + bytes(10_000))
    refused(path, "compressed")
    encrypted = bytearray(written(tmp_path, program(tensor())).read_bytes())
    encrypted[encrypted.index(b"PK\1\2") + 8] |= 1
    path.write_bytes(encrypted)
    refused(path, "encrypted")
    path.unlink()
    os.mkfifo(path)
    refused(path, "pipe or a device")
    path.unlink()
    written(tmp_path, program(tensor()))
    path.write_bytes(path.read_bytes()[:-30])
    refused(path, "cannot be read")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("model/data.pkl", program(tensor()))
        archive.writestr("model/byteorder", b"big")
    refused(path, "little-endian")


def nested_pairs(count: int) -> bytes:
    """A pickle's start, whose last kept value has 2 ** `count` parts when it is walked through."""
    pairs = b"".join(b"h%ch%c\x86q%c" % (i, i, i + 1) for i in range(count))
    return b"\x80\x02)q\x00" + pairs


@pytest.mark.parametrize(
    ("use", "what"),
    [
        (b"}h\x28K\x01s.", "a tuple as a key"),
        (short("collections") + short("OrderedDict") + b"h\x28h\x28\x93.", "has no name"),
        (
            b"(" + short("storage") + b"ctorch\nFloatStorage\nh\x28" + short("cpu") + b"K\x06tQ.",
            "something else than a name",
        ),
    ],
)
def test_values_within_values_are_never_walked_through(
    use: bytes, what: str, tmp_path: Path
) -> None:
    refused(written(tmp_path, nested_pairs(40) + use), what)


def test_dictionaries_within_dictionaries_are_never_walked_through(tmp_path: Path) -> None:
    content = b"\x80\x02}" + short("w") + tensor() + b"sq\x00"
    for i in range(40):
        content += b"}(" + short("a") + b"h%c" % i + short("b") + b"h%cuq%c" % (i, i + 1)
    refused(written(tmp_path, content + b"."), "a dictionary twice")


def test_a_storage_that_is_used_often_takes_memory_once(tmp_path: Path) -> None:
    count = 1_000_000
    first = (
        b"\x80\x02}(" + short("w") + tensor((count,), (1,), kept=storage(count=count)) + b"q\x01"
    )
    call = tensor((count,), (1,), kept=storage(count=count))
    path = written(
        tmp_path,
        first + b"".join(short(f"{i}") + call for i in range(500)) + b"u.",
        {"0": bytes(4 * count)},
    )
    tracemalloc.start()
    try:
        assert len(read_pth(path)) == 501
        assert tracemalloc.get_traced_memory()[1] < 40_000_000
    finally:
        tracemalloc.stop()


def array(kind: str, shape: list[int], start: int, end: int) -> dict[str, Any]:
    return {"dtype": kind, "shape": shape, "data_offsets": [start, end]}


def stored(header: dict[str, Any] | bytes, numbers: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + numbers


def safetensors_file(folder: Path, content: bytes) -> Path:
    path = folder / "model.safetensors"
    path.write_bytes(content)
    return path


def test_safetensors_of_the_original_code() -> None:
    weights = weights_file(GOLDEN / "huginn.safetensors")
    assert len(weights) == 39
    assert weights["transformer.core_block.0.attn.Wqkv.weight"].shape == (96, 32)
    # The total comes from the bytes after the header, unpacked with struct.
    assert sum(values.sum(dtype=np.float64) for values in weights.values()) == pytest.approx(
        625.61724801765, abs=1e-9
    )


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        *(("F64", "<f8"), ("F32", "<f4"), ("F16", "<f2"), ("I64", "<i8"), ("I32", "<i4")),
        *(("I16", "<i2"), ("I8", "<i1"), ("U8", "<u1"), ("BOOL", "?")),
    ],
)
def test_types_of_numbers(kind: str, dtype: str, tmp_path: Path) -> None:
    values = np.array([[0, 1], [1, 0]], dtype)
    header = {"__metadata__": {"a": "b"}, "w": array(kind, [2, 2], 0, values.nbytes)}
    found = read_safetensors(safetensors_file(tmp_path, stored(header, values.tobytes())))
    assert list(found) == ["w"] and found["w"].dtype == values.dtype
    np.testing.assert_array_equal(found["w"], values)


def test_bfloat16_of_safetensors_becomes_float32(tmp_path: Path) -> None:
    # 1, -2, the largest, infinity, the smallest above 0.
    halves = struct.pack("<5H", 0x3F80, 0xC000, 0x7F7F, 0x7F80, 0x0001)
    found = read_safetensors(
        safetensors_file(tmp_path, stored({"w": array("BF16", [5], 0, 10)}, halves))
    )
    assert found["w"].dtype == np.float32
    assert found["w"].tolist() == [1.0, -2.0, 255 * 2.0**120, np.inf, 2.0**-133]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        struct.pack("<Q", 2**62) + b"{}",
        stored(b"{"),
        stored(b"[" * 100_000),
        stored({"w": array("F32", [2], 0, 8)}, bytes(4)),
        stored({"w": array("F32", [2], 0, 4)}, bytes(4)),
        stored({"w": array("F32", [2**62, 4], 0, 4)}, bytes(4)),
        stored({"w": array("F32", [-1], 0, 4)}, bytes(4)),
        stored({"w": array("F32", [1], 4, 0)}, bytes(4)),
        stored({"w": array("F32", [1], 0, 4), "v": array("F32", [1], 0, 4)}, bytes(4)),
        stored({"w": array("F32", [1], 0, 4)}, bytes(8)),
        stored({"w": array("F32", [0, 2**63], 0, 0)}),
        stored({"w": array("F32", [1] * 100, 0, 4)}, bytes(4)),
        stored({"w": array("F8_E4M3", [4], 0, 4)}, bytes(4)),
    ],
)
def test_hostile_files_are_refused(content: bytes, tmp_path: Path) -> None:
    path = safetensors_file(tmp_path, content)
    with pytest.raises(UserError, match="safetensors") as error:
        read_safetensors(path)
    assert str(path) in str(error.value) and "\n" not in str(error.value)


def test_an_unknown_ending_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"'.h5'.*\.safetensors"):
        weights_file(tmp_path / "model.h5")
    with pytest.raises(UserError, match=r"model\.bin"):
        weights_file(tmp_path / "model.bin")


@pytest.mark.parametrize("kind", ["pth", "safetensors"])
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_a_damaged_file_is_arrays_or_one_sentence(
    kind: str, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("damaged")
    header = {"v": array("F32", [2], 0, 8), "w": array("BF16", [2, 1], 8, 12)}
    path = (
        written(folder, program(tensor()))
        if kind == "pth"
        else safetensors_file(folder, stored(header, bytes(12)))
    )
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content)
    try:
        found = weights_file(path)
    except UserError as error:
        assert "\n" not in str(error)
    else:
        assert sum(values.nbytes for values in found.values()) <= 24
