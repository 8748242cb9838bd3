"""The lines that TensorFlow begins with: only these are left out, and only where nobody asked."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from ut_tf import start_lines
from ut_tf.start_lines import held_back, without_start_lines

INFORMATION = (
    b"WARNING: All log messages before absl::InitializeLog() is called are written to STDERR\n"
    b"I0000 00:00:1795357749.800686   29649 port.cc:153] oneDNN custom operations are on.\n"
    b"2026-01-02 03:04:05.678901: I tensorflow/core/platform/cpu_feature_guard.cc:210] This ...\n"
    b"To enable the following instructions: AVX2 FMA, in other operations, rebuild TensorFlow ...\n"
)
OTHERS = (
    b"E0000 00:00:1795357774.289463   29649 cuda_platform.cc:52] failed call to cuInit\n"
    b"W0000 00:00:1795357774.289463   29649 something.cc:1] looks odd\n"
    b"A line of another thread, even if it says oneDNN\n"
)


@pytest.fixture(autouse=True)
def _has_driver(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(start_lines, "_NVIDIA_DRIVERS", (str(tmp_path),))


def _written(capfd: pytest.CaptureFixture[str]) -> bytes:
    with without_start_lines():
        os.write(2, INFORMATION + OTHERS)
    return capfd.readouterr().err.encode()


def test_only_lines_for_information_are_left_out(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "tensorflow")
    assert _written(capfd) == OTHERS
    monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL")
    with without_start_lines():
        assert os.environ["TF_CPP_MIN_LOG_LEVEL"] == "1"
    assert "TF_CPP_MIN_LOG_LEVEL" not in os.environ
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "0")
    assert _written(capfd) == INFORMATION + OTHERS


def test_without_a_gpu_the_error_that_there_is_none_is_left_out(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    drivers = (str(tmp_path / "nvidia"), str(tmp_path / "nvhost-*"))
    monkeypatch.setattr(start_lines, "_NVIDIA_DRIVERS", drivers)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.delitem(sys.modules, "tensorflow")
    assert _written(capfd).decode().splitlines() == OTHERS.decode().splitlines()[1:]
    # A Jetson board.
    (tmp_path / "nvhost-ctrl").touch()
    assert _written(capfd) == OTHERS


def test_where_tensorflow_is_there_or_cannot_be_imported_all_is_shown(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert _written(capfd) == INFORMATION + OTHERS
    monkeypatch.delitem(sys.modules, "tensorflow")
    with pytest.raises(ImportError), without_start_lines():
        os.write(2, INFORMATION)
        raise ImportError
    assert capfd.readouterr().err.encode() == INFORMATION


def test_after_ctrl_c_nothing_of_the_import_is_shown(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt), held_back(lambda _: False):
        os.write(2, OTHERS)
        raise KeyboardInterrupt
    assert capfd.readouterr().err == ""
