"""Files of strangers in run directories, tensor2tensor's and prepared data: no size that is only
declared is believed, nothing without an end is read, and nothing is written where they say.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import resource
import shutil
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.bin.tiny_runs import stories_run
from ut_tf.data import unpacking
from ut_tf.data.arrays import open_arrays, read_array
from ut_tf.data.prepared import NotPreparedError, PreparedFolder
from ut_tf.data.problem import Problem
from ut_tf.data.text.subword_files import read_subwords
from ut_tf.data.text.vocabulary import read_symbols
from ut_tf.errors import UserError
from ut_tf.interop.tensor2tensor import import_run
from ut_tf.interop.tensor2tensor_files import named_problem, read_checkpoint, read_hparams
from ut_tf.problems.reasoning.sudoku import Sudoku
from ut_tf.run import Run
from ut_tf.run_weights import load_model
from ut_tf.storage.checkpoints import find_fault, restore
from ut_tf.storage.disk_errors import disk_errors
from ut_tf.storage.files import MOST_JSON_BYTES, read_bounded
from ut_tf.storage.model_folder import copy_vocabulary

ENDLESS = Path("/dev/zero")
T2T_RUN = Path(__file__).resolve().parent.parent / "golden" / "t2t_run"
MOST_KILOBYTES = 500_000


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stories_run(tmp_path_factory.mktemp("runs") / "run").output_dir


@pytest.fixture
def run_dir(made: Path) -> Any:
    """A run directory, whose config.json comes back afterwards."""
    kept = (made / "config.json").read_bytes()
    yield made
    (made / "config.json").write_bytes(kept)


def configure(run_dir: Path, part: str = "", **values: Any) -> None:
    path = run_dir / "config.json"
    config = json.loads(path.read_text())
    place = config
    for name in filter(None, part.split(".")):
        place = place[name]
    place.update(values)
    path.write_text(json.dumps(config))


@pytest.mark.parametrize(
    ("part", "values"),
    [
        ("hparams.network", {"hidden_size": 10**9}),
        ("hparams.network", {"filter_size": 2**40}),
        ("hparams", {"model": "lstm", "network": {"hidden_size": 8, "num_layers": 10**12}}),
        ("hparams", {"model": "transformer", "network": {"hidden_size": 8, "num_steps": 10**12}}),
        ("spec", {"input_vocab_size": 2**40}),
    ],
    ids=str,
)
def test_numbers_of_a_configuration_fill_no_memory(
    run_dir: Path, part: str, values: dict[str, Any]
) -> None:
    configure(run_dir, part, **values)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(UserError) as caught:
        load_model(Run.load(run_dir))
    assert "\n" not in str(caught.value)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MOST_KILOBYTES


def _endless(path: Path) -> None:
    path.symlink_to(ENDLESS)


def _large(path: Path) -> None:
    path.touch()
    os.truncate(path, MOST_JSON_BYTES + 1)


@pytest.mark.parametrize("write", [_endless, _large, os.mkfifo])
def test_only_regular_files_that_are_small_are_read(
    tmp_path: Path, write: Callable[[Path], None]
) -> None:
    for name in ("config.json", "hparams.json", "flags.txt", "words.txt"):
        write(tmp_path / name)
    with pytest.raises(UserError, match="cannot be read"):
        Run.load(tmp_path)
    with pytest.raises(UserError, match="cannot be read"):
        read_hparams(tmp_path)
    with pytest.raises(UserError, match="cannot be read"):
        named_problem(tmp_path)
    with pytest.raises(OSError, match=r"no regular file|expected at most"):
        read_bounded(tmp_path / "words.txt")


def test_a_small_file_takes_little_memory_and_a_large_one_is_no_full_disk(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b"x" * 1000)
    tracemalloc.start()
    try:
        assert read_bounded(path, 10**9) == b"x" * 1000
        assert tracemalloc.get_traced_memory()[1] < 10**6
    finally:
        tracemalloc.stop()
    with pytest.raises(UserError, match="has 1,000 bytes") as caught, disk_errors(path):
        read_bounded(path, 10)
    assert "ulimit" not in str(caught.value)


def test_a_vocabulary_of_many_megabytes_is_read(tmp_path: Path) -> None:
    path = tmp_path / "words.txt"
    path.write_bytes(b"a\n" + b"b" * (7 * 10**7))
    assert [len(symbol) for symbol in read_symbols(path)] == [1, 7 * 10**7]


def test_a_vocabulary_of_gigabytes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "words.txt"
    path.touch()
    os.truncate(path, 2**32)
    with pytest.raises(UserError, match="expected at most 1,000,000,000"):
        read_symbols(path)
    with pytest.raises(UserError, match="expected at most 1,000,000,000"):
        read_subwords(path)


@pytest.mark.parametrize("name", ["../../../../../../../../dev/zero", "/dev/zero", "link"])
def test_a_manifest_names_only_files_beside_it(tmp_path: Path, name: str) -> None:
    (tmp_path / "link").symlink_to(ENDLESS)
    manifest = {"files": {name: {"bytes": 0, "sha256": "0" * 64}}}
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    assert find_fault(tmp_path) == f"{name} is no file in it"


def declare(path: Path, name: str = "model/x") -> None:
    """Writes a checkpoint whose index says that a variable has 2^40 bytes, of which it has one."""
    tf.raw_ops.SaveV2(
        prefix=str(path),
        tensor_names=[name],
        shape_and_slices=[f"{2**40} 0,1"],
        tensors=[tf.zeros([1], tf.uint8)],
    )


def test_an_index_that_declares_a_terabyte_is_refused(tmp_path: Path) -> None:
    declare(tmp_path / "variables")
    with pytest.raises(UserError, match=r"declares 1,099,511,627,776 bytes, and .* hold 1:"):
        restore(tmp_path, tf.train.Checkpoint(x=tf.Variable(0)))
    declare(tmp_path / "model.ckpt-1")
    with pytest.raises(UserError, match="declares 1,099,511,627,776 bytes"):
        read_checkpoint(tmp_path)


@pytest.mark.parametrize(
    "changes",
    [{"hidden_size": 10**9, "num_heads": 1}, {"hidden_size": 1e999}],
    ids=str,
)
def test_tensor2tensor_s_hyperparameters_fill_no_memory(
    tmp_path: Path, changes: dict[str, float]
) -> None:
    folder = tmp_path / "t2t_run"
    shutil.copytree(T2T_RUN, folder)
    path = folder / "hparams.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    out = tmp_path / "out"
    folders = {"data_dir": tmp_path / "data", "tmp_dir": tmp_path / "data"}
    with pytest.raises(UserError):
        import_run(folder, out, problem="algorithmic_reverse_decimal40", **folders)
    assert not out.exists()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MOST_KILOBYTES


class _Trace:
    """Leaves a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self._path = str(path)

    def __reduce__(self) -> Any:
        return open, (self._path, "w")


def _header(shape: tuple[int, ...]) -> bytes:
    buffer = io.BytesIO()
    values = {"descr": "<i8", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(buffer, values)
    return buffer.getvalue()


def test_arrays_bring_no_objects_and_no_more_than_they_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace, path = tmp_path / "executed", tmp_path / "train.npz"
    objects = np.array([_Trace(trace)], dtype=object)
    np.savez(path, ids=objects)
    with pytest.raises(ValueError, match="holds objects"), open_arrays(path):
        pass
    np.save(tmp_path / "words.npy", objects)
    with pytest.raises(ValueError, match="holds objects"):
        read_array(tmp_path / "words.npy")
    for content in (pickle.dumps(_Trace(trace)), b""):
        path.write_bytes(content)
        with pytest.raises((ValueError, zipfile.BadZipFile)), open_arrays(path):
            pass
        with pytest.raises((ValueError, EOFError)):
            read_array(path)
    assert not trace.exists()

    (tmp_path / "words.npy").write_bytes(_header((2**40,)))
    with pytest.raises(ValueError, match="declares"):
        read_array(tmp_path / "words.npy")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("ids.npy", _header((2**20, 2**20)))
    with pytest.raises(ValueError, match="declares"), open_arrays(path):
        pass
    monkeypatch.setattr(unpacking, "_LEAST", 2**18)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("ids.npy", _header((2**17,)) + bytes(2**20))
    with pytest.raises(UserError, match="unpacks to more"), open_arrays(path):
        pass


@pytest.mark.parametrize("name", ["vocab", "vocab/words.txt"])
def test_a_vocabulary_is_not_copied_from_where_a_link_leads(tmp_path: Path, name: str) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "words.txt").write_text("secret")
    source = tmp_path / "run" / "vocab"
    (source if name == "vocab/words.txt" else source.parent).mkdir(parents=True)
    (source.parent / name).symlink_to(tmp_path / "mine" / Path(name).relative_to("vocab"))
    with pytest.raises(UserError, match="is a link or no regular file"):
        copy_vocabulary(source, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()
    copy_vocabulary(tmp_path / "mine", tmp_path / "copy")
    assert (tmp_path / "copy" / "words.txt").read_text() == "secret"


def test_a_summary_of_prepared_data_is_bounded(tmp_path: Path) -> None:
    _large(tmp_path / "summary.json")
    with pytest.raises(UserError, match="expected at most 16,000,000"):
        PreparedFolder(tmp_path, needed=[], fields={}).summary()


class _OnceMade:
    """A problem whose data is a file."""

    name = "once_made"
    is_prepared = Problem.is_prepared

    def spec(self, data_dir: Path) -> Any:
        if not (data_dir / "made").exists():
            raise NotPreparedError("not there")
        return None

    def prepare(self, data_dir: Path, tmp_dir: Path) -> None:
        if self.is_prepared(data_dir):
            return
        (data_dir / "made").touch()
        (tmp_dir / "downloaded").touch()

    def vocab_files(self, data_dir: Path) -> list[Path]:
        del data_dir
        return []


def test_a_run_directory_does_not_say_where_data_is_written(
    run_dir: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("UT_TF_DATA_DIR", raising=False)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    configure(run_dir, data_dir=str(elsewhere), tmp_dir=str(elsewhere), spec=None)
    problem: Any = _OnceMade()
    run = Run.load(run_dir).prepare(problem)
    cache = tmp_path / "home" / ".cache" / "ut_tf"
    assert (run.data_dir, run.tmp_dir) == (cache / "data", cache / "downloads")
    assert list(elsewhere.iterdir()) == []
    assert "lacks the data" in capsys.readouterr().err
    # What is there is used, and a folder that is given is written to.
    (elsewhere / "made").touch()
    assert Run.load(run_dir).prepare(problem).data_dir == elsewhere
    given = Run.load(run_dir, data_dir=tmp_path / "given", tmp_dir=tmp_path / "given")
    assert given.prepare(problem).data_dir == tmp_path / "given"
    # A folder that is given for data says nothing of the other: theirs is not searched either.
    (tmp_path / "mine").mkdir()
    halfway = Run.load(run_dir, data_dir=tmp_path / "mine").prepare(problem)
    assert (halfway.data_dir, halfway.tmp_dir) == (tmp_path / "mine", cache / "downloads")
    assert not (elsewhere / "downloaded").exists()


def test_puzzles_and_another_problem_s_data_are_not_written_there_either(
    run_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("UT_TF_DATA_DIR", raising=False)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    configure(run_dir, data_dir=str(elsewhere), tmp_dir=str(elsewhere))
    # Its spec needs no data.
    other = Sudoku(train_puzzles=2, validation_puzzles=1, test_puzzles=1)
    run = Run.load(run_dir)
    assert run.with_folders_for(other).data_dir == tmp_path / "home/.cache/ut_tf/data"
    other.prepare(elsewhere, elsewhere)
    assert run.with_folders_for(other) is run
