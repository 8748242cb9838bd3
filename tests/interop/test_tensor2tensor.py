"""Import of tensor2tensor's hyperparameters, variables and run directories: what fits, and what is
said of what does not.
"""

from __future__ import annotations

import contextlib
import io
import json
import shutil
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.eager import eager_functions
from ut_tf.bin import decoder, import_t2t
from ut_tf.data.pipeline import train_batches
from ut_tf.errors import UserError
from ut_tf.factories import make_hparams
from ut_tf.inference.translator import Translator
from ut_tf.interop.tensor2tensor import (
    _problem_of_symbols,
    import_run,
    model_from_variables,
    network_from_hparams,
)
from ut_tf.interop.tensor2tensor_files import named_problem
from ut_tf.interop.tensor2tensor_vocabulary import find_vocabulary, named_vocabulary
from ut_tf.problem_spec import ProblemSpec
from ut_tf.run import Run
from ut_tf.run_weights import restore_weights
from ut_tf.search.config import DecodeConfig
from ut_tf.storage.checkpoints import read_state, restore
from ut_tf.storage.find_checkpoint import find_checkpoint
from ut_tf.training.distribution import Workers
from ut_tf.training.optimizer import Optimizer
from ut_tf.training.step import TrainingStep
from ut_tf.training.train_state import TrainState

GOLDEN = Path(__file__).resolve().parent.parent / "golden"
PROBLEM = "algorithmic_reverse_decimal40"


def _hparams(name: str = "act_basic") -> dict[str, Any]:
    values: dict[str, Any] = json.loads((GOLDEN / f"{name}.json").read_text())
    return values


def _variables(name: str = "act_basic") -> dict[str, Any]:
    with np.load(GOLDEN / f"{name}.npz") as file:
        return {
            key.removeprefix("var/"): value for key, value in file.items() if key.startswith("var/")
        }


def test_network_of_dynamic_halting() -> None:
    network = network_from_hparams(_hparams())
    assert (network.recurrence, network.halting, network.act_max_steps, network.num_steps) == (
        "basic",
        "basic",
        6,
        8,
    )
    assert (network.norm, network.position, network.step_encoding, network.halted_states) == (
        "pre",
        "tensor2tensor",
        "learned",
        "transform",
    )
    assert network.padding_ponders and network.target_space_embedding
    assert (network.target_start, network.global_mean) == ("zeros", "sequence")


def test_equal_channels_of_keys_and_values_are_the_width_of_the_heads() -> None:
    def head_size(keys: int | None, values: int | None) -> int:
        channels = {"attention_key_channels": keys, "attention_value_channels": values}
        return network_from_hparams({**_hparams(), **channels}).head_size

    assert _hparams()["hidden_size"] == 32
    heads = _hparams()["num_heads"]
    assert head_size(16 * heads, 16 * heads) == 16
    assert head_size(32, 0) == head_size(0, None) == 0


def test_every_unsupported_field_is_named_at_once() -> None:
    hparams = {**_hparams(), "recurrence_type": "dwa", "add_sru": True, "norm_type": "batch"}
    del hparams["num_heads"]
    with pytest.raises(UserError) as caught:
        network_from_hparams(hparams)
    for text in (
        "recurrence_type=dwa cannot be imported (tensor2tensor takes its softmax over the channels",
        "ut-trainer trains the attention that was meant, with `hparams`=recurrence=dwa",
        "add_sru=True cannot be imported (ut-tf has no simple recurrent unit inside a step)",
        "norm_type=batch cannot be imported, only layer",
        "num_heads is missing",
    ):
        assert text in str(caught.value)
    make_hparams("ut_base", "recurrence=dwa")  # The options are real ones.


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"gates_inputs": "si"}, "gates_inputs=si cannot be imported, only sti"),
        ({"couple_carry_transform_gates": False}, "tensor2tensor normalises twice what the carry"),
        ({"attention_key_channels": 8}, "attention_key_channels=8 and attention_value_channels=32"),
    ],
)
def test_what_no_form_of_ours_equals_is_refused_with_the_reason(
    values: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(UserError, match=sentence):
        network_from_hparams({**_hparams(), "recurrence_type": "highway", **values})
    # What another recurrence does not read does not count.
    assert network_from_hparams({**_hparams(), "gate_ffn_layer": "dense_dropconnect"})


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"num_encoder_layers": 4}, "num_encoder_layers=4 and num_decoder_layers=2 differ"),
        ({"pos": "emb"}, "a table of positions for inputs and another for targets"),
        ({"self_attention_type": "dot_product_relative"}, "relative_bias adds a number"),
    ],
)
def test_what_of_a_transformer_is_refused(values: dict[str, Any], sentence: str) -> None:
    hparams = {**_hparams(), "pos": "timing", **values}
    with pytest.raises(UserError, match=sentence):
        network_from_hparams(hparams, "transformer")


def test_other_models_are_refused() -> None:
    with pytest.raises(UserError, match="model 'lstm_seq2seq' cannot be imported, only those of"):
        network_from_hparams(_hparams(), "lstm_seq2seq")


def test_missing_and_unknown_variables_are_listed() -> None:
    variables = _variables()
    lost = "universal_transformer/body/encoder/layer_prepostprocess/layer_norm/layer_norm_bias"
    variables["universal_transformer/body/parallel_0/extra"] = variables.pop(lost)
    with pytest.raises(UserError, match=r"encoder/layer_prepostprocess/layer_norm/layer_norm_bias"):
        model_from_variables(variables, _hparams(), target_space_id=1)


def test_a_target_space_without_a_row_is_told() -> None:
    with pytest.raises(UserError, match="`target_space_id`=99: the checkpoint has 32 rows"):
        model_from_variables(_variables(), _hparams(), target_space_id=99)


def test_sharded_embedding_equals_the_whole_one() -> None:
    variables = _variables()
    name = "universal_transformer/symbol_modality_12_32/shared/weights_"
    whole = variables.pop(name + "0")
    # Eleven shards: shard 10 must come after shard 9, not after shard 1; the last may be empty.
    variables |= {
        f"{name}{index}": part
        for index, part in enumerate([*np.split(whole, [2, *range(3, 12)]), whole[:0]])
    }
    model = model_from_variables(variables, _hparams(), target_space_id=1)
    np.testing.assert_array_equal(model.input_embedding.table, whole)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, str]:
    """The imported run, and what was said."""
    folder, said = tmp_path_factory.mktemp("imported"), io.StringIO()
    places = {"data_dir": folder / "data", "tmp_dir": folder / "tmp"}
    with contextlib.redirect_stderr(said):
        return import_run(GOLDEN / "t2t_run", folder / "run", **places), said.getvalue()


def test_run_directory(made: tuple[Run, str]) -> None:
    run, _ = made
    loaded = Run.load(run.output_dir)
    assert loaded.hparams == run.hparams
    assert (loaded.hparams.network.num_steps, loaded.hparams.training.batch_size) == (4, 2048)
    model = loaded.make_model()
    assert restore_weights(model, loaded, "last") == 301
    reader = tf.train.load_checkpoint(str(GOLDEN / "t2t_run" / "model.ckpt-301"))
    table = reader.get_tensor("universal_transformer/body/target_space_embedding/kernel")
    np.testing.assert_array_equal(
        model.target_space, table[11]
    )  # The one row that its training moved.
    assert read_state(find_checkpoint(loaded.output_dir, "last"))["step"] == 301
    _check_optimizer(loaded, model, reader)


def _check_optimizer(run: Run, model: Any, reader: Any) -> None:
    """Adam's moments must have gone to the weights they belong to."""
    checkpoint = tf.train.load_checkpoint(
        str(find_checkpoint(run.output_dir, "last") / "variables")
    )
    index = [weight is model.input_embedding.table for weight in model.trainable_variables].index(
        True
    )
    shards = [
        reader.get_tensor(
            f"training/universal_transformer/symbol_modality_12_128/shared/weights_{shard}/Adam_1"
        )
        for shard in range(16)
    ]
    stored = checkpoint.get_tensor(f"optimizer/second_moments/{index}/.ATTRIBUTES/VARIABLE_VALUE")
    np.testing.assert_array_equal(stored, np.concatenate(shards))


@pytest.mark.slow
def test_an_imported_run_trains_on(made: tuple[Run, str]) -> None:
    run, said = made
    assert run.problem == PROBLEM
    assert "its 12 symbols fit algorithmic_reverse_decimal40" in said
    small = run.hparams.change(batch_size=16, max_length=8)
    batches = train_batches(run.make_problem(), run.data_dir, small.training, 1, run.seed, 0)
    keras.utils.set_random_seed(1)
    model = run.make_model()
    optimizer = Optimizer(model.trainable_variables, small.training, small.network.hidden_size)
    restore(
        find_checkpoint(run.output_dir, "best"), TrainState(model, optimizer).checkpoint()
    )  # Refuses what lacks a variable.
    step = TrainingStep(
        model, optimizer, small, Workers.of(tf.distribute.get_strategy()), batches.element_spec
    )
    # One update is sooner computed than its graph is made.
    with eager_functions():
        (report,) = step.read([step.update([next(iter(batches))])[0]])
    assert int(optimizer.iterations) == 302
    assert report.tokens > 0 and 0.0 < report.gradient_norm < 100.0


def test_problem_must_be_named_where_symbols_do_not_tell(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="give `problem`"):
        _problem_of_symbols(
            tmp_path, {"universal_transformer/symbol_modality_13_16/shared/weights_0": 0}
        )
    assert named_problem(tmp_path) is None


def test_problems_of_classes_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    arguments = {
        "data_dir": tmp_path / "data",
        "tmp_dir": tmp_path / "tmp",
        "problem_args": "train_questions=40,test_questions=4",
    }
    with pytest.raises(UserError, match="the network has inputs=tokens and targets=tokens: give"):
        import_run(GOLDEN / "t2t_run", tmp_path / "run", "babi_sim_task1", **arguments)
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_variables_of_another_vocabulary_leave_no_run_behind(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="not those of the network"):
        import_run(
            GOLDEN / "t2t_run",
            tmp_path / "run",
            "algorithmic_reverse_binary40",
            data_dir=tmp_path,
            tmp_dir=tmp_path,
        )
    assert not (tmp_path / "run").exists()


def test_checkpoints_that_are_there_are_kept(tmp_path: Path) -> None:
    (tmp_path / "checkpoints" / "step-00000007").mkdir(parents=True)
    with pytest.raises(UserError, match="already holds checkpoints"):
        import_run(GOLDEN / "t2t_run", tmp_path, PROBLEM)
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoints"]


def test_missing_checkpoint_names_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"model\.ckpt-301"):
        import_run(GOLDEN / "t2t_run", tmp_path / "run", PROBLEM, checkpoint="model.ckpt-300")


def test_folder_without_a_run(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"hparams\.json does not exist"):
        import_run(tmp_path, tmp_path / "run", PROBLEM)
    shutil.copy(GOLDEN / "t2t_run" / "hparams.json", tmp_path)
    with pytest.raises(UserError, match="holds no checkpoint"):
        import_run(tmp_path, tmp_path / "run", PROBLEM)


TRAINED = GOLDEN / "t2t_translation"
VOCABULARY = "vocab.translate_toy.64.subwords"
NETWORKS = sorted(path.name for path in TRAINED.iterdir() if path.is_dir())
LARGEST_DIFFERENCE = 1e-4


def references(network: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((TRAINED / network / "references.json").read_text())
    return found


def imported(network: str, folder: Path) -> Run:
    """Returns the imported run, loaded from its directory alone."""
    import_run(
        TRAINED / network,
        folder / "run",
        target_space_id=1,
        data_dir=folder / "data",
        tmp_dir=folder / "tmp",
    )
    shutil.rmtree(folder / "data")
    return Run.load(folder / "run")


@pytest.mark.slow  # The commands below translate with the Transformer in every run of the tests.
@pytest.mark.parametrize("network", NETWORKS)
def test_a_trained_network_translates_as_tensor2tensor_does(network: str, tmp_path: Path) -> None:
    expected = references(network)
    right = sum(entry["greedy"]["text"] == entry["target"] for entry in expected)
    assert right >= len(expected) // 3  # It has learnt something.
    lines = [(entry["source"],) for entry in expected]
    run = imported(network, tmp_path)
    for label, options in (("greedy", {"beam_size": 1}), ("beam4", {"beam_size": 4, "alpha": 0.6})):
        config = DecodeConfig(**options, extra_length=10, wide_ends=True)
        translator = Translator.from_run(run, "last", config)
        for entry, (best, *_) in zip(expected, translator.translate(lines), strict=True):
            theirs = entry[label]["text"]
            if label == "beam4":
                assert best.score == pytest.approx(entry["beam4"]["score"], abs=LARGEST_DIFFERENCE)
            if best.text != theirs:
                ours, other = translator.score([(entry["source"],)] * 2, [best.text, theirs])
                assert ours == pytest.approx(other, abs=LARGEST_DIFFERENCE), "no tie"


@pytest.mark.slow
@pytest.mark.usefixtures("eager")
def test_the_commands_of_a_user_of_tensor2tensor(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    expected = references("transformer")[:6]
    (tmp_path / "lines.txt").write_text("".join(f"{entry['source']}\n" for entry in expected))
    t2t_dir, data_dir = tmp_path / "t2t", tmp_path / "data"
    shutil.copytree(TRAINED / "transformer", t2t_dir)
    data_dir.mkdir()
    (t2t_dir / VOCABULARY).rename(data_dir / VOCABULARY)
    where = ["--data_dir=~/data", f"--tmp_dir={tmp_path}", f"--output_dir={tmp_path}/run"]
    assert import_t2t.main(["--t2t_dir=~/t2t", "--target_space_id=1", *where]) == 0
    printed = capsys.readouterr()
    assert f"the run translates with the subwords of {data_dir}" in printed.err
    assert printed.out == f"next: ut-decoder --output_dir={tmp_path}/run\n"
    out = tmp_path / "out.txt"
    files = [f"--decode_from_file={tmp_path}/lines.txt", f"--decode_to_file={out}"]
    options = "--decode_hparams=beam_size=4,alpha=0.6,wide_ends=true"
    assert decoder.main([f"--output_dir={tmp_path}/run", options, *files]) == 0
    assert out.read_text().splitlines() == [entry["beam4"]["text"] for entry in expected]


def test_which_vocabulary_is_taken(tmp_path: Path) -> None:
    path = TRAINED / "transformer" / VOCABULARY
    size = len(path.read_text(encoding="utf-8").splitlines())
    spec = ProblemSpec("tokens", "tokens", size, size, shared_vocab=True)
    assert named_vocabulary(path, spec) == path
    shutil.copy(path, tmp_path / "vocab.a")
    (tmp_path / "vocab.other").write_text("<pad>\n<EOS>\na\n")
    assert find_vocabulary([tmp_path], spec) == tmp_path / "vocab.a"
    *lines, last, end = path.read_text(encoding="utf-8").split("\n")
    (tmp_path / "vocab.b").write_text("\n".join([*lines[:-1], last, lines[-1], end]))
    with pytest.raises(UserError, match=r"is not clear, .*vocab\.a, .*vocab\.b: give `vocab`"):
        find_vocabulary([tmp_path], spec)
    larger = ProblemSpec("tokens", "tokens", size + 1, size + 1, shared_vocab=True)
    assert find_vocabulary([tmp_path], larger) is None
    two = ProblemSpec("tokens", "tokens", size, size + 1)
    assert find_vocabulary([tmp_path], two) is None
    with pytest.raises(UserError, match=rf"has {size} subwords, and the network {size + 1} and"):
        named_vocabulary(path, larger)
    with pytest.raises(UserError, match=r"does not begin with <pad> and <EOS>"):
        named_vocabulary(TRAINED / "make_references.py", spec)
    with pytest.raises(UserError, match=r"cannot be read \(No such file"):
        named_vocabulary(tmp_path / "vocab.none", spec)
    language = ProblemSpec("none", "tokens", 0, size)
    with pytest.raises(UserError, match=r"is a language model.*`problem`=lm_files"):
        named_vocabulary(path, language)
