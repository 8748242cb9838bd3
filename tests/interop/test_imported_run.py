"""ut-import of TRM's, HRM's and Huginn's golden checkpoints: the same answers, and a training that
goes on.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from ut_tf import registry
from ut_tf.bin import eval as eval_command
from ut_tf.bin import exporter, import_run, insights, show, trainer
from ut_tf.data.example_table import ExampleTable
from ut_tf.data.problem import Problem
from ut_tf.errors import UserError
from ut_tf.interop.hrm_trm import load_recursive, outer_steps
from ut_tf.interop.huginn import load_huginn
from ut_tf.interop.imported_run import import_checkpoint
from ut_tf.problem_spec import ProblemSpec
from ut_tf.run import Run
from ut_tf.run_weights import restore_weights

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "recursive"
EXAMPLES = 24


def files(name: str) -> tuple[Path, Path]:
    return GOLDEN / f"{name}.pth", GOLDEN / f"{name}.yaml"


def write_folder(place: Path, name: str = "trm_attention", **described: Any) -> Path:
    """Puzzles of the golden size, the golden inputs first; two blanks are answered by rules."""
    golden = np.load(GOLDEN / f"{name}.npz")
    inputs = np.random.default_rng(0).integers(0, 7, [EXAMPLES, 16])
    puzzles = np.arange(EXAMPLES) % 3
    inputs[:5], puzzles[:5] = golden["inputs"], golden["puzzle_identifiers"]
    arrays = {
        "inputs": inputs,
        "labels": np.where(inputs == 1, inputs[:, ::-1], inputs),
        "puzzle_identifiers": puzzles,
        "puzzle_indices": np.arange(EXAMPLES + 1),
        "group_indices": np.arange(0, EXAMPLES + 1, 2),
    }
    numbers = {"vocab_size": 7, "seq_len": 16, "num_puzzle_identifiers": 3, **described}
    for part in ("train", "test"):
        folder = place / "puzzles" / part
        folder.mkdir(parents=True)
        description = {"pad_id": 0, "ignore_label_id": 0, "sets": ["all"], **numbers}
        (folder / "dataset.json").write_text(json.dumps(description))
        for title, array in arrays.items():
            np.save(folder / f"all__{title}.npy", array.astype(np.int32))
    return place / "puzzles"


def imported(place: Path, name: str, kind: str, output_dir: str = "run", **options: Any) -> Run:
    return import_checkpoint(
        kind,
        *files(name),
        place / output_dir,
        "puzzle_folder",
        {"folder": str(place / "puzzles")},
        place / "data",
        place / "tmp",
        **options,
    )


def answers(output_dir: Path, rows: int = 5) -> Any:
    run = Run.load(output_dir)
    model = run.make_model()
    restore_weights(model, run)
    features = run.make_problem().examples("test", run.data_dir).batch(tf.range(rows))
    return model(features).numpy()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "kind"), [("trm_attention", "trm"), ("trm_mlp", "trm"), ("hrm_two_levels", "hrm")]
)
def test_a_run_answers_as_its_checkpoint(
    name: str, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, (weights, config) = write_folder(tmp_path, name), files(name)
    line = [f"--from={kind}", f"--checkpoint={weights}", f"--config={config}"]
    line += ["--problem=puzzle_folder", f"--problem_args=folder={folder}"]
    line += [f"--{place}={tmp_path / place}" for place in ("output_dir", "data_dir", "tmp_dir")]
    assert import_run.main(line) == 0
    assert capsys.readouterr().out == f"next: ut-eval --output_dir={tmp_path / 'output_dir'}\n"
    golden, model = np.load(GOLDEN / f"{name}.npz"), load_recursive(weights, config)
    *_, last = outer_steps(model, golden["inputs"], golden["puzzle_identifiers"], 4)
    # Ids of padding and the end, which the checkpoint has not, stand in front.
    found = answers(tmp_path / "output_dir")
    np.testing.assert_array_equal(found[..., 2:], last.logits)
    assert (found[..., :2] < -1e8).all()
    assert import_run.main(line) == 1
    assert "already holds checkpoints" in capsys.readouterr().err


def test_a_run_has_the_training_of_its_configuration(tmp_path: Path) -> None:
    write_folder(tmp_path)
    text = files("trm_attention")[1].read_text()
    more = "lr: 1e-4\nlr_min_ratio: 1.0\nlr_warmup_steps: 2000\nbeta1: 0.9\nbeta2: 0.95\n"
    (tmp_path / "own.yaml").write_text(
        text
        + more.replace("1e-4", "0.0001")
        + "weight_decay: 1.0\nglobal_batch_size: 6\nema: false\n"
        + "puzzle_emb_lr: 0.02\npuzzle_emb_weight_decay: 0.5\n"
    )
    run = import_checkpoint(
        "trm",
        files("trm_attention")[0],
        tmp_path / "own.yaml",
        tmp_path / "run",
        "puzzle_folder",
        {"folder": str(tmp_path / "puzzles")},
        tmp_path / "data",
        tmp_path / "tmp",
    )
    training = run.hparams.training
    assert (training.supervision, training.loss, training.replace_by) == ("deep", "stablemax", "q")
    assert (training.supervision_steps, training.halt_exploration) == (4, 0.1)
    assert (training.learning_rate, training.warmup_steps, training.schedule) == (
        0.0001,
        2000,
        "constant",
    )
    assert (training.weight_decay, training.batch_size, training.average_decay) == (1.0, 6, 0.0)
    assert (training.adam_beta1, training.adam_beta2) == (0.9, 0.95)
    own = (training.puzzle_optimizer, training.puzzle_learning_rate, training.puzzle_weight_decay)
    assert own == ("signsgd", 0.02, 0.5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"vocab_size": 8}, "has 10 ids, padding and end among them, and the checkpoint 9"),
        ({"num_puzzle_identifiers": 4}, "has 4 identifiers of puzzles, and the checkpoint"),
    ],
)
def test_a_folder_that_does_not_fit_is_refused(
    change: dict[str, int], message: str, tmp_path: Path
) -> None:
    write_folder(tmp_path, **change)
    with pytest.raises(UserError, match=message):
        imported(tmp_path, "trm_attention", "trm")
    assert not (tmp_path / "run").exists()


def test_other_lengths_problems_and_kinds_are_refused(tmp_path: Path) -> None:
    write_folder(tmp_path)
    with pytest.raises(UserError, match=r"trm_attention\.yaml is of trm, not of hrm"):
        imported(tmp_path, "trm_attention", "hrm")
    with pytest.raises(UserError, match="did you mean trm"):
        imported(tmp_path, "trm_attention", "tmr")
    arguments = (tmp_path / "run", "aligned_files")
    rows = tmp_path / "rows.tsv"
    rows.write_text("".join(f"{'0123456'[i:]}\t{'0123456'[i:]}\n" for i in [0] * 9 + [1] * 9))
    data = {"data_dir": tmp_path / "data", "tmp_dir": tmp_path / "tmp"}
    with pytest.raises(UserError, match=r"has [67] positions, and the checkpoint reads 16"):
        import_checkpoint(
            "trm", *files("trm_attention"), *arguments, {"source_files": str(rows)}, **data
        )
    with pytest.raises(UserError, match="targets=tokens, and the checkpoint inputs=tokens"):
        import_checkpoint(
            "trm",
            *files("trm_attention"),
            tmp_path / "run",
            "algorithmic_copy_decimal40",
            "train_examples=20,max_length=4",
            **data,
        )


@pytest.mark.slow
def test_every_command_reads_an_imported_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_folder(tmp_path)
    run = imported(tmp_path, "trm_attention", "trm")
    line = [f"--output_dir={run.output_dir}"]
    own = [f"--config={run.output_dir / 'config.json'}", "--num_gpus=0"]
    assert trainer.main([*own, *line, "--train_steps=2"]) == 0
    assert eval_command.main(line) == 0
    assert "seq_accuracy" in capsys.readouterr().out
    assert show.main([*line, "--examples=1"]) == 0
    assert "answer: " in capsys.readouterr().out
    assert insights.main([*line, f"--html={tmp_path / 'page.html'}", "--examples=1"]) == 0
    # Texts do not say which puzzle they are of.
    assert exporter.main([*line, f"--export_dir={tmp_path / 'export'}"]) == 1
    assert "a memory for each of 3 puzzles" in capsys.readouterr().err


class HuginnIds(Problem):
    """Ids of a checkpoint of Huginn, as a user's own problem has them."""

    name = "huginn_ids"

    def prepare(self, data_dir: Path, tmp_dir: Path) -> None:
        del data_dir, tmp_dir

    def spec(self, data_dir: Path) -> ProblemSpec:
        del data_dir
        return ProblemSpec("none", "tokens", 0, 49)

    def examples(self, split: str, data_dir: Path, *_: Any, **__: Any) -> ExampleTable:
        raise NotImplementedError


@pytest.mark.slow
def test_huginns_weights_become_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.problems._registered, "huginn_ids", (HuginnIds, __file__))
    weights, config = GOLDEN / "huginn.safetensors", GOLDEN / "huginn.json"
    places = {"data_dir": tmp_path / "data", "tmp_dir": tmp_path / "tmp"}
    run = import_checkpoint("huginn", weights, config, tmp_path / "run", "huginn_ids", **places)
    model = Run.load(run.output_dir).make_model()
    restore_weights(model, run)
    huginn = load_huginn(weights, config)
    ids = huginn.symbols(np.arange(12).reshape(2, 6))
    np.testing.assert_array_equal(model({"targets": ids}), huginn.model({"targets": ids}))
