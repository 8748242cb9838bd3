"""Links, pipes and devices in folders that others have written: nothing outside is changed, and
nothing hangs.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.bin.tiny_runs import translation_run
from tests.training.toy import toy_run
from ut_tf.bin import avg_checkpoints, bleu, translate_all
from ut_tf.bin import eval as eval_command
from ut_tf.errors import UserError
from ut_tf.figures import style
from ut_tf.storage import locks
from ut_tf.storage.files import (
    open_regular,
    open_to_append,
    open_to_write,
    read_bounded,
    sha256_of,
    write_text,
)
from ut_tf.storage.json_lines import lines
from ut_tf.storage.locks import exclusive, held_alone, while_starting
from ut_tf.training.trainer import train

PRECIOUS = "precious\n"


class Filelock314:
    """What filelock 3.14 does with a path."""

    def __init__(self, path: Path, **options: Any) -> None:
        del options
        self._path = path

    def __enter__(self) -> None:
        os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644))

    def __exit__(self, *_: object) -> None:
        pass


@pytest.fixture(params=["installed", "3.14"])
def filelock(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "3.14":
        monkeypatch.setattr(locks, "FileLock", Filelock314)


@contextmanager
def outside(folder: Path) -> Iterator[Path]:
    """A folder with a file that must stay as it is, and stay alone."""
    folder.mkdir()
    victim = folder / "victim"
    victim.write_text(PRECIOUS)
    victim.chmod(0o600)
    yield victim
    assert victim.read_text() == PRECIOUS
    assert stat.S_IMODE(victim.stat().st_mode) == 0o600
    assert [path.name for path in folder.iterdir()] == ["victim"]


@pytest.mark.usefixtures("filelock")
@pytest.mark.parametrize("name", ["victim", "made"])
def test_locks_follow_no_link(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with outside(tmp_path / "outside") as victim:
        run = tmp_path / "run"
        run.mkdir()
        for lock in (".lock", ".start.lock"):
            (run / lock).symlink_to(victim.with_name(name))
        with while_starting(run) as is_free:
            assert is_free
        with held_alone(run):
            assert "cannot be locked (.lock is a link)" in capsys.readouterr().err
        with pytest.raises(OSError, match="is a link"), exclusive(run / ".lock"):
            pass


OPENERS: list[Callable[[Path], Any]] = [
    open_regular,
    read_bounded,
    sha256_of,
    lambda path: [*lines(path)],
    open_to_append,
    open_to_write,
]


@pytest.mark.parametrize("open_it", OPENERS)
@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_only_regular_files_are_opened(
    tmp_path: Path, open_it: Callable[[Path], Any], kind: str
) -> None:
    path = tmp_path / "file"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    with pytest.raises(OSError, match=r"no regular file|[Ii]s a directory"):
        open_it(Path("/dev/zero") if kind == "device" else path)


@pytest.mark.parametrize("write", [open_to_append, open_to_write])
def test_what_is_written_is_no_link(tmp_path: Path, write: Callable[[Path], Any]) -> None:
    with outside(tmp_path / "outside") as victim:
        for name in ("victim", "made"):
            (tmp_path / name).symlink_to(victim.with_name(name))
            with pytest.raises(OSError, match="is a link"):
                write(tmp_path / name)
        (tmp_path / "text").symlink_to(victim)
        write_text(tmp_path / "text", "anew")
        assert not (tmp_path / "text").is_symlink()
    path = tmp_path / "file"
    path.write_text("before")
    with write(path) as file:
        file.write(b"!")
    assert path.read_text() == ("before!" if write is open_to_append else "!")


def link_all(folder: Path, victim: Path, *names: str) -> None:
    """Puts a link to something outside in the place of each file of a folder that is not there."""
    for number, name in enumerate(names):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.symlink_to(victim if number % 2 else victim.with_name(f"made-{path.name}"))


OF_TRAINING = (
    *(".lock", ".start.lock", "processes.jsonl", "tracker.json", ".config.json.tmp"),
    *("checkpoints/best.json", "checkpoints/tmp-step-00000002-7", "checkpoints/corrupt-step-1"),
)
OF_USE = (
    *("evaluations.jsonl", "ensembles.jsonl", "exit_sweep.json", "exit_sweep.csv"),
    *("exit_sweep.svg", "exit_sweep.png", "bleu.jsonl"),
)


@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize("odd", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_training_writes_nothing_outside(tmp_path: Path, odd: int) -> None:
    with outside(tmp_path / "outside") as victim:
        run = toy_run(tmp_path / "run", train_steps=2)
        run._write()
        link_all(run.output_dir, victim, *OF_TRAINING[odd:], *OF_TRAINING[:odd])
        assert train(run).step == 2
        link_all(run.output_dir, victim, "metrics.jsonl")
        with pytest.raises(UserError, match=r"metrics\.jsonl"):
            train(toy_run(run.output_dir, train_steps=3))


def test_figures_are_drawn_where_they_were_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(style, "as_png", lambda _: b"png")
    monkeypatch.setattr(style, "as_svg", lambda _: "svg")
    with outside(tmp_path / "outside") as victim:
        link_all(tmp_path / "run", victim, "exit_sweep.svg", "exit_sweep.png")
        drawn = style.save(None, tmp_path / "run" / "exit_sweep")
        assert [path.read_text() for path in drawn] == ["svg", "png"]


@pytest.mark.slow
@pytest.mark.usefixtures("eagerly")
def test_commands_write_nothing_outside(tmp_path: Path) -> None:
    with outside(tmp_path / "outside") as victim:
        run = translation_run(tmp_path)
        where = f"--output_dir={run.output_dir}"
        mean = tmp_path / "run-avg2"
        assert avg_checkpoints.main([where, "--n=2"]) == 0
        link_all(run.output_dir, victim, *OF_USE, *OF_USE[1:])
        link_all(run.output_dir, victim, "figures/ponder_times.svg", "figures/loss.png")
        link_all(mean, victim, "translations/x", "translations/test")
        fast = "--decode_hparams=beam_size=1,max_length=2"
        assert eval_command.main([where, "--checkpoint=last"]) == 0
        assert bleu.main(["--checkpoints", where, "--steps=200", fast]) == 1
        assert translate_all.main([where, "--n=2", fast]) == 1
