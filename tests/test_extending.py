"""The examples of docs/extending.md, each in a folder of its own, go through the commands that the
page shows, in tiny sizes.
"""

from __future__ import annotations

import io
import json
import re
import shlex
import sys
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
import tensorflow as tf

from tests.bin.tiny_runs import save
from tests.eager import eager_functions
from ut_tf import registry
from ut_tf.bin import decoder, exporter, trainer, trainer_flags
from ut_tf.bin import eval as eval_command
from ut_tf.errors import UserError
from ut_tf.evaluation.records import read_records
from ut_tf.factories import make_model, make_problem
from ut_tf.inference.reading import Reader
from ut_tf.problem_spec import ProblemSpec
from ut_tf.search.config import DecodeConfig
from ut_tf.tables.summary import headline

PAGE = Path(__file__).resolve().parent.parent / "docs" / "extending.md"
LONGEST_EXAMPLE = 40
COMMANDS = {module.COMMAND: module for module in (trainer, eval_command, decoder, exporter)}
TINY = "hidden_size=8,filter_size=8,num_heads=1,num_steps=1,batch_size=64,max_length=16,dropout=0"
TINY_PROBLEMS = {
    "algorithmic_copy_decimal40": (
        "max_length=4,train_examples=64,validation_length=4,validation_examples=8,test_examples=8"
    ),
    "copy_first_symbol": "train_examples=64,test_examples=8",
}


class Section(NamedTuple):
    """An example of the page.

    Fields:
      folder: name of the folder for --usr_dir.
      source: of its __init__.py.
      commands: that use it, one a line.
    """

    folder: str
    source: str
    commands: list[str]


def _sections() -> list[Section]:
    page = PAGE.read_text(encoding="utf-8")
    blocks = re.findall(
        r"^```python usr_dir=(\w+)\n(.*?)^```\n+^```sh\n(.*?)^```", page, re.DOTALL | re.MULTILINE
    )
    return [Section(folder, source, lines.splitlines()) for folder, source, lines in blocks]


SECTIONS = {section.folder: section for section in _sections()}
# They are trained together, in the folder that imports all of them.
PARTS = ("my_cell", "my_injection", "my_transition", "my_halting", "my_position")
# Trained and evaluated as any run: the outcome is a run with other hyperparameters, and outputs.
SET = "my_set"
# They need a model, however it was trained.
UNTRAINED = ("my_strategy", "my_exit")
# One that trains and measures; the others' are slow.
QUICK = ("my_method",)
# By the folder of an example: the data that it draws by default, and how much is enough here.
FEWER = {"my_problem": {"(10_000, [seed": "(64, [seed", "(200, [-1": "(8, [-1"}}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty working directory; what is registered and imported is forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    for known in vars(registry).values():
        if isinstance(known, registry.Registry):
            monkeypatch.setattr(known, "_registered", {})
    yield tmp_path
    for name in [name for name in sys.modules if name.partition(".")[0] in SECTIONS]:
        del sys.modules[name]


@pytest.fixture
def eagerly_where_quick(name: str) -> Iterator[None]:
    """The quick examples run without graphs; the slow ones with them."""
    with eager_functions() if name in QUICK else nullcontext():
        yield


def _write(section: Section, folder: Path) -> None:
    """Writes the section's folder; modules that it imports are the blocks of other sections."""
    package = folder / section.folder
    package.mkdir()
    source = section.source
    for usual, fewer in FEWER.get(section.folder, {}).items():
        assert usual in source, f"{usual} stands no more in the page"
        source = source.replace(usual, fewer)
    (package / "__init__.py").write_text(source)
    for names in re.findall(r"^from \. import (.*)$", section.source, re.MULTILINE):
        for name in names.split(", "):
            (package / f"{name}.py").write_text(SECTIONS[f"my_{name}"].source)


def _tiny(words: list[str], section: Section) -> list[str]:
    """A command's flags with tiny sizes in the place of those of the page."""
    command, *flags = words
    given = dict(flag.removeprefix("--").split("=", 1) for flag in flags)
    if command == "ut-trainer":
        steps = re.sub(r"act_max_steps=\d+", "act_max_steps=3", given.get("hparams", ""))
        sizes = [TINY, re.sub(r",num_steps=\d+", "", steps)]
        given["hparams"] = ",".join(size for size in sizes if size)
        given |= {"train_steps": "1", "num_gpus": "0", "data_dir": "data", "tmp_dir": "tmp"}
        if given["problem"] in TINY_PROBLEMS:
            given["problem_args"] = TINY_PROBLEMS[given["problem"]]
    elif command == "ut-eval" and "algorithmic_copy" in section.commands[0]:
        given["lengths"] = "4"
    elif command == "ut-exporter":
        given["signatures"] = "serving_default"
    if command in ("ut-decoder", "ut-exporter"):
        given.setdefault("decode_hparams", "beam_size=1,max_length=4")
    options = [f"--{name}={value}" for name, value in given.items()]
    return [*options, "--nowarmup"] if command == "ut-exporter" else options


def _run(line: str, section: Section, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs one of our commands, after a pipe with what echo writes into it."""
    typed, _, piped = line.partition(" | ")
    words = shlex.split(piped or typed)
    if piped:
        text = shlex.split(typed)[1] + "\n"
        stdin = SimpleNamespace(buffer=io.BytesIO(text.encode()), isatty=lambda: False)
        monkeypatch.setattr(sys, "stdin", stdin)
    assert COMMANDS[words[0]].main(_tiny(words, section)) == 0, line


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.usefixtures("eager")
def test_the_command_of_a_part_makes_a_model_of_it(name: str, folder: Path) -> None:
    section = SECTIONS[name]
    _write(section, folder)
    command, *others = section.commands
    run = trainer_flags.checked_run(_tiny(shlex.split(command), section))
    place = run.output_dir.relative_to(folder)
    plain = f"ut-eval --usr_dir={section.folder} --output_dir={place}"
    assert others in ([plain], [f"{plain} --by_difficulty"])
    model = make_model(run.hparams, make_problem(run.problem, {}).spec(run.data_dir), seed=0)
    features = {"inputs": tf.constant([[5, 4, 3, 1]]), "targets": tf.constant([[5, 4, 3, 1]])}
    assert np.isfinite(model(features, training=True)).all()
    used = [*model._flatten_layers(), model.position_encoding]
    assert name in {type(part).__module__ for part in used}


@pytest.mark.usefixtures("eager")
def test_the_command_of_a_set_makes_a_model_of_its_values(folder: Path) -> None:
    section = SECTIONS[SET]
    _write(section, folder)
    run = trainer_flags.checked_run(_tiny(shlex.split(section.commands[0]), section))
    assert (run.hparams_set, run.hparams.network.recurrence) == ("ut_algorithmic_gru", "gru")
    assert run.hparams.training.batch_size == 64
    model = make_model(run.hparams, make_problem(run.problem, {}).spec(run.data_dir), seed=0)
    assert "GRUCell" in {type(part).__name__ for part in model._flatten_layers()}


def _slow_but_quick(names: Iterable[str]) -> list[Any]:
    return [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in names]


@pytest.mark.usefixtures("eagerly_where_quick")
@pytest.mark.parametrize("name", _slow_but_quick(UNTRAINED))
def test_an_example_that_changes_no_training_goes_through_the_other_commands(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    section = SECTIONS[name]
    _write(section, folder)
    training, evaluation, *searching = section.commands
    run = trainer_flags.checked_run(_tiny(shlex.split(training), section)).start()
    save(run, (1,))
    place = run.output_dir.relative_to(folder)
    plain = f"ut-eval --usr_dir={section.folder} --output_dir={place}"
    assert evaluation.startswith(plain)
    # An evaluation without options is that of any run.
    commands = searching if evaluation == plain else [evaluation, *searching]
    assert commands
    _run_all(section, commands, folder, monkeypatch, capsys)


@pytest.mark.usefixtures("eagerly_where_quick")
@pytest.mark.parametrize(
    "name", _slow_but_quick(name for name in SECTIONS if name not in (*PARTS, SET, *UNTRAINED))
)
def test_an_example_goes_through_its_commands(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    section = SECTIONS[name]
    _write(section, folder)
    _run_all(section, section.commands, folder, monkeypatch, capsys)


def _run_all(
    section: Section,
    lines: list[str],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Runs commands of a section, and looks at what each of them gives."""
    for line in lines:
        capsys.readouterr()
        _run(line, section, monkeypatch)
        output = capsys.readouterr().out
        if line.startswith("ut-eval"):
            (run,) = (folder / "runs").iterdir()
            assert json.loads(output.splitlines()[-1])
            OUTCOMES.get(section.folder, _nothing_more)(run)
        elif " | ut-decoder" in line:
            assert len(output.splitlines()) == 1
        elif line.startswith("ut-exporter"):
            (exported,) = (folder / "exported").glob("*/1")
            answer = tf.saved_model.load(str(exported)).signatures["serving_default"]
            assert answer(tf.constant(["3141"]))["outputs"].dtype == tf.string


def _nothing_more(run: Path) -> None:
    """An example whose outcome is that the commands accept it."""


def _waits_for_the_second_step(run: Path) -> None:
    lines = [json.loads(line) for line in (run / "metrics.jsonl").open()]
    times = [value for line in lines for name, value in line.items() if name == "ponder_time"]
    assert times
    assert min(times) >= 2.0


def _selects_and_reports_its_own_metric(run: Path) -> None:
    (record,) = read_records(run)
    assert headline(record) == "first_error"
    assert 0.0 <= record.metrics["first_error"] <= 1.0
    assert "first_error" in record.intervals
    assert record.selection is not None
    assert record.selection["metric"] == "first_error"


OUTCOMES = {
    "my_parts": _waits_for_the_second_step,
    "my_method": _selects_and_reports_its_own_metric,
}


def test_every_kind_of_extension_has_a_short_example() -> None:
    for section in SECTIONS.values():
        assert len(section.source.splitlines()) <= LONGEST_EXAMPLE, section.folder
    sources = "".join(section.source for section in SECTIONS.values())
    decorators = {name for name in vars(registry) if name.startswith("register_")}
    assert set(re.findall(r"registry\.(register_\w+)\(", sources)) == decorators
    for command in COMMANDS:
        users = [section for section in SECTIONS.values() if command in str(section.commands)]
        assert len(users) >= 2, command


def test_the_text_form_reads_and_refuses() -> None:
    section = PAGE.read_text(encoding="utf-8").partition("\n## A text form\n")[2]
    names: dict[str, Any] = {}
    exec(re.search(r"^```python\n(.*?)^```", section, re.DOTALL | re.MULTILINE)[1], names)
    codec = names["WordCodec"]()
    reader = Reader(codec, ProblemSpec("tokens", "tokens", 28, 28), DecodeConfig())
    reading = reader.inputs(tf.constant(["abz", " Abz", "a1", "", "é"]))
    assert reading.ids.numpy().tolist() == [[2, 3, 27, 1]] * 2 + [[1, 0, 0, 0]] * 3
    refused = " is no word: expected letters from a to z"
    errors = [error.decode() for error in reading.errors.numpy()]
    assert errors == ["", "", f"'a1'{refused}", "", f"'é'{refused}"]
    assert codec.decode(reading.ids).numpy().tolist() == [b"abz", b"abz", b"", b"", b""]
    assert list(codec.read(["ab", ""], "words")) == [("ab",), ("",)]
    with pytest.raises(UserError, match=r"^words, line 2: '1' is no word: .*; correct the line\.$"):
        list(codec.read_targets(["ab", "1"], "words"))
    # Each member in the table is one of the codec's.
    rows = re.findall(r"^\| (`.*?) \|", section.partition("\n## ")[0], re.MULTILINE)
    members = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert len(members) > 8 and all(hasattr(codec, name) for name in members)
