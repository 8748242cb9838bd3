"""Saved models: equal outputs in another process, a card that tells what is known, and folders of
others that cannot do harm.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from huggingface_hub import ModelCard
from safetensors.numpy import load_file, save_file

import ut_tf
from tests.bin.tiny_runs import digits_run, stories_run, translation_run
from tests.sharing.hub_server import Hub, serving
from tests.training.toy import toy_run
from ut_tf import registry
from ut_tf.bin import decoder, exporter
from ut_tf.config.hparams import HParams
from ut_tf.data.text.codec import TextCodec
from ut_tf.errors import UserError
from ut_tf.evaluation.records import Record, append_record, now
from ut_tf.run import Run
from ut_tf.serving.export import export_run, origin
from ut_tf.sharing import hub as hub_module
from ut_tf.sharing.card import Stored, model_card
from ut_tf.sharing.saving import _portable_config
from ut_tf.sharing.saving import save as save_model
from ut_tf.storage import model_folder

STORY = ("Mary moved to the kitchen.", "Where is Mary?")
FEATURES = {"inputs": np.array([[[3, 6, 7, 8, 9, 0], [10, 11, 3, 0, 0, 0]]], np.int32)}
# Another model is made first, so that Keras counts its layers on from there.
FRESH = """
import sys, numpy as np, ut_tf
loaded = [ut_tf.load(sys.argv[1]) for _ in range(2)][1]
np.save(sys.argv[2], loaded.model({"inputs": np.load(sys.argv[3])}))
print(loaded.answer(*sys.argv[4:]))
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    run = stories_run(tmp_path_factory.mktemp("runs") / "babi")
    record = Record(
        time=now(),
        problem=run.problem,
        hparams_set=run.hparams_set,
        seed=run.seed,
        checkpoint="best",
        step=100,
        split="test",
        metrics={"error": 1.5, "ponder_time": 2.25},
        intervals={"error": (0.9, 2.3)},
        examples={"": 1000},
        data_note="simulated",
        headlines=("error",),
    )
    append_record(run.output_dir, record)
    append_record(run.output_dir, Record(**{**vars(record), "step": 50, "metrics": {"error": 9.0}}))
    # Measured in another use, which is not how the model is used.
    for changed in (
        {"decode": "beam_size=8"},
        {"hparams": "eval_num_steps=2"},
        {"hparams": "of_an_older_version=1"},
    ):
        other = {"metrics": {"error": 7.0}, "intervals": {}, **changed}
        append_record(run.output_dir, Record(**{**vars(record), **other}))
    return run


@pytest.fixture(scope="module")
def saved(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ut_tf.save(run, tmp_path_factory.mktemp("models") / "mine", license="apache-2.0")


@pytest.fixture
def copy(saved: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(saved, tmp_path / "copy"))


@pytest.mark.slow
def test_another_process_computes_and_answers_the_same(
    run: Run, saved: Path, tmp_path: Path
) -> None:
    logits = ut_tf.load_model(run)(FEATURES)
    np.save(tmp_path / "inputs.npy", FEATURES["inputs"])
    places = [str(saved), str(tmp_path / "logits.npy"), str(tmp_path / "inputs.npy")]
    done = subprocess.run(
        [sys.executable, "-c", FRESH, *places, *STORY], capture_output=True, text=True, check=False
    )
    # Neither an error nor what TensorFlow says when it starts.
    assert (done.returncode, done.stderr) == (0, "")
    np.testing.assert_array_equal(np.load(places[1]), logits)
    expected = next(ut_tf.Translator.from_run(run).translate([STORY]))
    assert done.stdout.strip() == expected[0].text
    assert str(run.output_dir.parent) not in (saved / "config.json").read_text()


def test_the_card_of_another_use_has_its_figures(run: Run, tmp_path: Path) -> None:
    ut_tf.save(run.in_use("eval_num_steps=2"), tmp_path / "other")
    text = (tmp_path / "other" / "README.md").read_text(encoding="utf-8")
    assert "They are used with `eval_num_steps=2`." in text
    assert re.search(r"error \(%\) +7$", text, re.MULTILINE) and "1.5" not in text


def test_the_card_tells_the_hub_and_its_readers(saved: Path, run: Run) -> None:
    card = ModelCard((saved / "README.md").read_text(encoding="utf-8"))
    (result,) = card.data.eval_results
    assert (result.metric_type, result.metric_value) == ("error", 1.5)
    assert card.data.license == "apache-2.0" and "babi_qa_task1_1k" in card.data.tags
    command = "ut-trainer --problem=babi_qa_task1_1k --hparams_set=ut_babi --hparams=hidden_size=8"
    for told in (
        command,
        "1.5 [0.9, 2.3]",
        "ponder_time (steps)  2.25",
        "Seed 0; the weights are of step 100",
        "simulated",
        f"{ut_tf.load_model(run).count_params():,} parameters",
        f"tensorflow {json.loads((saved / 'config.json').read_text())['versions']['tensorflow']}",
    ):
        assert told in card.text


def test_half_precision_takes_half_and_changes_little(
    run: Run, saved: Path, tmp_path: Path
) -> None:
    half = ut_tf.save(run, tmp_path / "half", dtype="float16")
    sizes = [(folder / "model.safetensors").stat().st_size for folder in (half, saved)]
    assert sizes[0] < 0.7 * sizes[1]
    exact, rounded = (ut_tf.load(folder).model(FEATURES) for folder in (saved, half))
    assert 0 < np.abs(exact - rounded).max() < 0.01


@pytest.mark.usefixtures("eager")
def test_commands_save_a_run_and_read_the_model(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run = digits_run(tmp_path / "run")
    folder = tmp_path / "models" / "copy"
    (tmp_path / "digits").write_text("31415\n")
    place = [f"--output_dir={run.output_dir}"]
    assert exporter.main([*place, "--format=model", f"--export_dir={folder}"]) == 0
    assert capfd.readouterr().out.splitlines() == [str(folder)]
    source = [
        f"--decode_from_file={tmp_path / 'digits'}",
        "--decode_hparams=beam_size=1,max_length=6",
    ]
    answers = []
    for read in (place, [f"--model={folder}"]):
        assert decoder.main([*read, *source]) == 0
        answers.append(capfd.readouterr().out)
    assert answers[0] == answers[1] != ""
    for wrong, told in (
        ([], "--output_dir is missing"),
        ([*place, f"--model={folder}"], "both name what is read"),
        (["--model=babbi"], "--model=babbi: there is no such folder"),
        ([f"--model={folder}", "--checkpoint=50"], "is a saved model, which has one set"),
        ([f"--model={run.output_dir}"], "is a run directory and no saved model"),
    ):
        assert decoder.main([*wrong, *source]) != 0
        assert told in capfd.readouterr().err


def test_user_code_may_register_the_problem_of_a_saved_model(
    copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _config(copy, problem="own_stories")

    def register(usr_dir: str) -> None:
        assert usr_dir == "mine"
        registered["own_stories"] = (object, "")

    registered: dict[str, Any] = {}
    monkeypatch.setattr(registry.problems, "_registered", registered)
    monkeypatch.setattr(registry, "import_user_code", register)
    assert ut_tf.Run.load(copy, usr_dir="mine").problem == "own_stories"


def test_a_saved_model_that_lacks_its_code_says_so(copy: Path) -> None:
    # Code may have registered the set alone, which nobody needs any more.
    _config(copy, hparams_set="own_set", own_code=True)
    assert ut_tf.Run.load(copy).hparams_set == "own_set"
    _config(copy, problem="own_stories")
    with pytest.raises(UserError, match=r"unknown problem.*code of its author.* add `usr_dir`"):
        ut_tf.load(copy)


def test_the_card_of_own_code_asks_for_its_folder(run: Run, tmp_path: Path) -> None:
    own = dataclasses.replace(run, usr_dir=str(tmp_path / "mine"))
    ut_tf.save(own, tmp_path / "saved")
    assert json.loads((tmp_path / "saved" / "config.json").read_text())["own_code"]
    card = (tmp_path / "saved" / "README.md").read_text()
    assert card.count("--usr_dir=mine") == 3 and 'usr_dir="mine")' in card
    assert str(tmp_path) not in card


class DigitsOf04(TextCodec):
    """A codec as 0.4 had them: its checks stand in ``read``."""

    def __init__(self, codec: TextCodec) -> None:
        super().__init__()
        self.codec = codec

    def encode(self, *texts: Any) -> dict[str, Any]:
        return self.codec.encode(*texts)

    def encode_targets(self, texts: Any) -> Any:
        return self.codec.encode_targets(texts)

    def decode(self, outputs: Any) -> Any:
        return self.codec.decode(outputs)

    def read(self, lines: Iterable[str], name: str) -> Iterator[tuple[str, ...]]:
        for line in lines:
            if "x" in line:
                raise UserError(f"{name}: {line!r} has an x.")
            yield (line.replace(" ", ""),)


GREEDY = ut_tf.DecodeConfig(beam_size=1)


@pytest.mark.slow
@pytest.mark.usefixtures("eager")
def test_a_codec_written_for_0_4_refuses_what_its_read_refuses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loaded = ut_tf.load("reverse", GREEDY)
    codec, answers = loaded.run.text_codec(), loaded.answer("172")
    monkeypatch.setattr(type(loaded.run), "text_codec", lambda _: DigitsOf04(codec))
    with pytest.raises(UserError, match=r"^the text: '17x' has an x\.$"):
        ut_tf.load("reverse", GREEDY).answer("17x")
    old = ut_tf.load("reverse", GREEDY)
    assert old.answer("1 7 2") == answers
    assert list(old.answers(["172", ["172"]])) == [answers, answers]
    for wrong in ((), ("1", "2"), (172,)):
        with pytest.raises(UserError, match=r"expected (1: inputs|a text)"):
            old.answer(*wrong)


def _config(folder: Path, **values: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def _network(folder: Path, **values: Any) -> None:
    hparams = json.loads((folder / "config.json").read_text())["hparams"]
    _config(folder, hparams={**hparams, "network": {**hparams["network"], **values}})


def _without(folder: Path, name: str) -> None:
    (folder / name).unlink()


def _cut(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-10])


def _flipped(folder: Path) -> None:
    path = folder / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def _one_less(folder: Path) -> None:
    arrays = load_file(folder / "model.safetensors")
    save_file(dict(list(arrays.items())[1:]), folder / "model.safetensors")


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda folder: _without(folder, "config.json"), "no config.json"),
        (lambda folder: _without(folder, "model.safetensors"), "no model.safetensors"),
        (_cut, "model.safetensors cannot be read"),
        (_flipped, "model.safetensors is not as it was saved"),
        (_one_less, "do not fit its config.json"),
        (lambda folder: (folder / "config.json").write_text("[" * 100_000), "cannot be read"),
        (lambda folder: (folder / "config.json").write_bytes(bytes(10**6 + 1)), "may have"),
        (lambda folder: _config(folder, usr_dir="/tmp"), "no saved model may"),
        (lambda folder: _config(folder, vocab_sha256={"../x": "0"}), "without folders"),
        (lambda folder: _config(folder, problem="babi_qa_task0"), "babi_qa_task0"),
        (lambda folder: _config(folder, trained={}), "does not say which step"),
        (lambda folder: _network(folder, hidden_size=2**20), "makes a model of more than"),
        (lambda folder: (folder / "vocab" / "answers.txt").write_text("hall\n"), "is not the"),
    ],
)
def test_a_damaged_or_hostile_folder_is_one_sentence(
    copy: Path, damage: Callable[[Path], object], told: str
) -> None:
    damage(copy)
    with pytest.raises(UserError, match=told) as caught:
        ut_tf.load(copy).answer(*STORY)
    assert "\n" not in str(caught.value)


def test_what_could_not_be_read_is_not_saved(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(model_folder.LARGEST_FILES, "model.safetensors", 1000)
    told = r"model\.safetensors has .* bytes, .* may have 1,000; give `dtype`=float16, or train a"
    with pytest.raises(UserError, match=told):
        ut_tf.save(run, tmp_path / "models" / "mine")
    assert not (tmp_path / "models").exists()


def test_a_saved_model_keeps_no_paths_of_the_machine(tmp_path: Path) -> None:
    arguments = {"source_files": [str(tmp_path / "own" / "texts.tsv")], "vocab_size": 100}
    run = SimpleNamespace(
        output_dir=tmp_path,
        hparams=HParams(),
        problem="translate_files",
        problem_args=arguments,
        usr_dir=str(tmp_path / "mine"),
    )
    assert str(tmp_path) not in json.dumps(_portable_config(run, {}))  # type: ignore[arg-type]


FILES = {
    "config.json": b"{}",
    "model.safetensors": bytes(3000),
    "README.md": b"# a card",
    "vocab/words.txt": b"mary\n",
}
OTHERS = {"setup.py": b"raise SystemExit", "vocab/deep/words.txt": b"", "evil/config.json": b""}


def _in_process(code: str, address: str, home: Path) -> subprocess.CompletedProcess[str]:
    """Runs code in a process of its own: huggingface_hub reads its settings when it is imported."""
    settings = {"HF_ENDPOINT": address, "HF_HOME": str(home), "HF_HUB_DISABLE_XET": "1"}
    prelude = "from pathlib import Path\nfrom ut_tf.errors import UserError\n"
    prelude += "from ut_tf.sharing.hub import download, upload\n"
    return subprocess.run(
        [sys.executable, "-c", prelude + code],
        env={**os.environ, **settings, "HF_TOKEN": "hf_token"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_model_is_uploaded_and_downloaded_without_other_files(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    for name, content in {**FILES, "notes.txt": b"mine"}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    hub = Hub(dict(OTHERS))
    with serving(hub) as address:
        code = (
            f"upload(Path({str(folder)!r}), 'hf://user/model')\nprint(download('hf://user/model'))"
        )
        done = _in_process(code, address, tmp_path / "home")
    assert done.returncode == 0, done.stderr
    assert hub.files == {**OTHERS, **FILES}
    fetched = Path(done.stdout.splitlines()[-1])
    found = {
        path.relative_to(fetched).as_posix(): path.read_bytes()
        for path in fetched.rglob("*")
        if path.is_file()
    }
    assert found == FILES


def test_a_file_too_large_is_not_fetched_and_a_missing_model_is_one_sentence(
    tmp_path: Path,
) -> None:
    hub = Hub(dict(FILES), sizes={"model.safetensors": 10**12})
    code = (
        "for place in ('hf://user/model', 'hf://user/none'):\n"
        "    try: download(place)\n"
        "    except UserError as error: print(' '.join(str(error).split()))"
    )
    with serving(hub) as address:
        done = _in_process(code, address, tmp_path)
    large, missing = done.stdout.splitlines()
    assert "model.safetensors has 1000000000000 bytes" in large
    assert hub.fetched == []
    assert missing.startswith("hf://user/none cannot be downloaded (RepositoryNotFoundError")


def test_without_the_extra_its_name_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(UserError, match="pip install huggingface_hub"):
        hub_module.download("hf://user/model")
    with pytest.raises(UserError, match="expected hf://user/model"):
        hub_module.download("hf://user/../model")


HOSTILE = (
    "<img/src=x onerror=alert(1)>",
    '"><script>alert(2)</script>[x](javascript:alert(3))',
    "a`<b>`| c\n```\n<i>\n# d",
    "\x1b]0;owned\x07",
)


def test_no_text_becomes_markup(tmp_path: Path) -> None:
    run = toy_run(tmp_path / "run", "toy_class")
    groups = {
        text: {"feature": "class", "value": text, "examples": 5} for text in (*HOSTILE, "plain")
    }
    record = Record(
        time="2026",
        problem=run.problem,
        hparams_set=run.hparams_set,
        seed=0,
        checkpoint="best",
        step=7,
        split=HOSTILE[1],
        lengths=(),
        metrics={"error": 1.0, **{f"error/{text}": 2.0 for text in groups}},
        intervals={},
        examples={"": 10},
        data_note=HOSTILE[1],
        groups=groups,
    )
    append_record(run.output_dir, record)
    named = dataclasses.replace(
        run,
        problem_args={"names": list(HOSTILE), "text": HOSTILE[2]},
        hparams_set="ut_base",
        overrides=f"dropout=0.1,{HOSTILE[2]}",
    )
    versions = {"tensorflow": HOSTILE[0], HOSTILE[1]: "1"}
    stored = Stored("x", 7, 10, "float32", license=HOSTILE[2], versions=versions)
    card = model_card(named, stored)
    assert "alert(1)" in card
    front, text = card.split("\n---\n", 1)
    # JSON's texts, each on its line.
    assert all(json.loads(line.partition(": ")[2]) for line in front.splitlines()[1:])
    blocks = re.split(r"^```", text, flags=re.MULTILINE)
    assert len(blocks) == 9
    prose = re.sub(r"(?<!`)(`+)(?!`).+?(?<!`)\1(?!`)", "", "".join(blocks[::2]))
    assert "<" not in prose
    assert "](http" in prose  # of ut-tf itself
    assert prose.count("](") == 1
    assert not any(ord(sign) < 32 and sign != "\n" for sign in card)
    assert "\n# d" not in card


def told_folders(folder: Path, of: Path) -> list[str]:
    """The files that name a folder of this machine."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [path.name for path in files if str(of).encode() in path.read_bytes()]


def test_a_saved_model_and_the_summary_of_an_export_tell_no_folder(tmp_path: Path) -> None:
    run = translation_run(tmp_path, (100,))
    save_model(run, tmp_path / "saved")
    assert told_folders(tmp_path / "saved", tmp_path) == []
    config = json.loads((tmp_path / "saved" / "config.json").read_text())
    assert config["problem_args"]["source_files"] == ["train.en"]
    checkpoint = str(run.output_dir / "checkpoints" / "step-00000100")
    summary = origin(run, checkpoint, 100)
    assert str(tmp_path) not in json.dumps(summary)
    assert summary["problem_args"]["source_files"] == ["train.en"]
    assert summary["checkpoint"] == {"asked": "step-00000100", "step": 100}


@pytest.mark.slow
def test_an_export_tells_no_folder(tmp_path: Path) -> None:
    run = translation_run(tmp_path, (100,))
    folder = export_run(run, tmp_path / "export", str(run.output_dir / "checkpoints/step-00000100"))
    assert told_folders(folder, tmp_path) == []
