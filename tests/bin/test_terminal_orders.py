"""Control characters in what others wrote do not reach a terminal: names in a run directory and
labels of texts.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ut_tf.bin import avg_checkpoints, datagen, decoder, report, trainer
from ut_tf.bin import eval as eval_command

RUN = Path(__file__).parents[1] / "stored_runs" / "ut_halting_reverse" / "run"
ORDER = "\x1b]0;owned\x07\x9b2J\x7f"
ORDERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


@pytest.fixture
def shown(capfd: pytest.CaptureFixture[str]) -> Any:
    """Calls a command, and gives what it has written."""

    def call(command: Any, *argv: str) -> str:
        command.main([*argv])
        return "".join(capfd.readouterr())

    return call


def strings(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The keys that lead to each text in a value of JSON."""
    if isinstance(value, str):
        yield path
    entries = enumerate(value) if isinstance(value, list) else getattr(value, "items", tuple)()
    for key, entry in entries:
        yield from strings(entry, (*path, key))


def with_order(folder: Path, path: tuple[Any, ...]) -> Path:
    """A copy of the run in which a text of the configuration ends with an order."""
    shutil.copytree(RUN, folder)
    file = folder / "config.json"
    config = json.loads(file.read_text(encoding="utf-8"))
    value = config
    for key in path[:-1]:
        value = value[key]
    value[path[-1]] += ORDER
    file.write_text(json.dumps(config), encoding="utf-8")
    return folder


@pytest.mark.usefixtures("eagerly")
def test_the_name_of_a_run_s_set(shown: Any, tmp_path: Path) -> None:
    run = with_order(tmp_path / "run", ("hparams_set",))
    written = shown(eval_command, f"--output_dir={run}", "--checkpoint=last")
    assert "ut_algorithmic_reverse\ufffd" in written and not ORDERS.search(written)


def test_labels_of_texts(shown: Any, tmp_path: Path) -> None:
    lines = [f"{('pos', 'neg')[i % 2]}{ORDER}\tsome text {i}\n" for i in range(60)]
    (tmp_path / "texts.tsv").write_text("".join(lines), encoding="utf-8")
    folders = [f"--data_dir={tmp_path}/data", f"--tmp_dir={tmp_path}"]
    source = f"--source_files={tmp_path}/texts.tsv"
    written = shown(datagen, "--problem=classify_files", source, *folders)
    assert "2 classes" in written and not ORDERS.search(written)


@pytest.mark.slow
@pytest.mark.parametrize("path", strings(json.loads((RUN / "config.json").read_text())), ids=str)
def test_every_text_of_a_configuration(shown: Any, tmp_path: Path, path: tuple[Any, ...]) -> None:
    (tmp_path / "in.txt").write_text("3 1 2\n")
    for number, (command, *argv) in enumerate(
        [
            (eval_command, "--checkpoint=last"),
            (decoder, f"--decode_from_file={tmp_path}/in.txt"),
            (trainer, "--train_steps=1"),
            (trainer, "--plan"),
            (avg_checkpoints,),
        ]
    ):
        run = with_order(tmp_path / str(number), path)
        assert not ORDERS.search(shown(command, f"--output_dir={run}", *argv)), command.COMMAND
    assert not ORDERS.search(shown(report, str(with_order(tmp_path / "report", path))))
