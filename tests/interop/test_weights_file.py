"""Weights of other systems by the endings of their files; safetensors files that are hostile."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ut_tf.errors import UserError
from ut_tf.interop.safetensors_file import read_safetensors
from ut_tf.interop.weights_file import weights_file

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "recursive"


def array(kind: str, shape: list[int], start: int, end: int) -> dict[str, Any]:
    return {"dtype": kind, "shape": shape, "data_offsets": [start, end]}


def stored(header: dict[str, Any] | bytes, numbers: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + numbers


def written(folder: Path, content: bytes) -> Path:
    path = folder / "model.safetensors"
    path.write_bytes(content)
    return path


def test_a_checkpoint_of_the_original_code() -> None:
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
    found = read_safetensors(written(tmp_path, stored(header, values.tobytes())))
    assert list(found) == ["w"] and found["w"].dtype == values.dtype
    np.testing.assert_array_equal(found["w"], values)


def test_bfloat16_becomes_float32(tmp_path: Path) -> None:
    # 1, -2, the largest, infinity, the smallest above 0.
    halves = struct.pack("<5H", 0x3F80, 0xC000, 0x7F7F, 0x7F80, 0x0001)
    found = read_safetensors(written(tmp_path, stored({"w": array("BF16", [5], 0, 10)}, halves)))
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
    path = written(tmp_path, content)
    with pytest.raises(UserError, match="safetensors") as error:
        read_safetensors(path)
    assert str(path) in str(error.value) and "\n" not in str(error.value)


def test_an_unknown_ending_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"'.h5'.*\.safetensors"):
        weights_file(tmp_path / "model.h5")
    with pytest.raises(UserError, match=r"model\.bin"):
        weights_file(tmp_path / "model.bin")


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_a_damaged_file_is_arrays_or_one_sentence(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    header = {"v": array("F32", [2], 0, 8), "w": array("BF16", [2, 1], 8, 12)}
    content = bytearray(stored(header, bytes(12)))
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = written(tmp_path_factory.mktemp("damaged"), bytes(content))
    try:
        found = read_safetensors(path)
    except UserError as error:
        assert "\n" not in str(error)
    else:
        assert sum(values.nbytes for values in found.values()) <= 24
