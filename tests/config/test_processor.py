"""Where products in bfloat16 are in hardware: what is read of the processor."""

from __future__ import annotations

from pathlib import Path

import pytest

from ut_tf.config.processor import describe_processor, multiplies_bfloat16


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("processor\t: 0\nflags\t\t: fpu avx2 avx512f avx512_bf16\n", True),
        ("processor\t: 0\nflags\t\t: fpu avx512f amx_bf16 amx_tile\n", True),
        ("processor\t: 0\nflags\t\t: fpu avx2 avx512f avx512_vnni\n", False),
        ("processor\t: 0\nFeatures\t: fp asimd bf16\n", True),
        ("processor\t: 0\n", None),
    ],
)
def test_bfloat16_in_hardware(tmp_path: Path, text: str, expected: bool | None) -> None:
    (tmp_path / "cpuinfo").write_text(text)
    assert multiplies_bfloat16(tmp_path / "cpuinfo") is expected


def test_a_system_that_does_not_say(tmp_path: Path) -> None:
    assert multiplies_bfloat16(tmp_path / "absent") is None


def test_a_record_names_model_and_flags_that_decide_speed(tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text(
        "processor\t: 0\nmodel name\t: Some CPU @ 2.0GHz\nflags\t\t: sse avx2 amx_int8 avx512f\n"
    )
    described = describe_processor(tmp_path / "cpuinfo")
    assert described["model"] == "Some CPU @ 2.0GHz"
    assert described["flags"] == ["avx2", "avx512f", "amx_int8"]
    assert described["cores"] >= 1
