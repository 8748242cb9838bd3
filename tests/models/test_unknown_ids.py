"""Ids that no vocabulary has are named, the first of them, wherever they come from: a loss, fit,
ut-trainer, a served model.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

import keras
import numpy as np
import pytest
import requests
import tensorflow as tf

from tests.conformance.cases import SEQUENCES, network
from tests.serving import toy
from tests.serving.python_model import served
from ut_tf import registry
from ut_tf.bin import trainer
from ut_tf.data.text.codec import TextCodec
from ut_tf.errors import UserError, marked_in
from ut_tf.metrics.losses import expected_cross_entropy, smoothed_cross_entropy
from ut_tf.models.universal_transformer.model import UniversalTransformer
from ut_tf.problem_spec import ProblemSpec
from ut_tf.search.scoring import log_probabilities
from ut_tf.serving.export import export_run
from ut_tf.serving.served_model import ServedModel

LOGITS = tf.random.stateless_normal([2, 3, 12], [0, 0])
TARGETS = tf.constant([[3, 4, 0], [5, 12, -1]])
WORDS = ProblemSpec("tokens", "word", 12, 12, shared_vocab=True)


@pytest.mark.parametrize("loss", [smoothed_cross_entropy, expected_cross_entropy])
def test_targets_of_a_loss(loss: Any) -> None:
    told = "row 1 of the targets holds the id 12, and the ids of this vocabulary are whole numbers "
    with pytest.raises(UserError, match=told):
        loss(LOGITS, TARGETS)
    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        tf.function(loss)(LOGITS, TARGETS)
    assert told in str(marked_in(error.value))
    with pytest.raises(UserError, match="row 1 of the targets holds the id -1, "):
        loss(LOGITS[:, 0], tf.constant([11, -1]))


def test_targets_of_a_pointer_and_of_classes() -> None:
    inputs = np.array([[3, 4, 1, 5, 1]])
    for spec in (WORDS, ProblemSpec("tokens", "class", 12, 3)):
        model = UniversalTransformer(network(UniversalTransformer, halting="none"), spec)
        beyond = spec.target_vocab_size
        assert np.isfinite(log_probabilities(model, {"inputs": inputs, "targets": [beyond - 1]}))
        with pytest.raises(UserError, match=f"row 0 of the targets holds the id {beyond}, "):
            log_probabilities(model, {"inputs": inputs, "targets": [beyond]})


def test_targets_of_fit() -> None:
    model = UniversalTransformer(network(UniversalTransformer, halting="none"), SEQUENCES)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=0)
    model.compile("sgd", loss)
    targets = TARGETS.numpy()
    inputs = np.array([[3, 4, 1], [5, 1, 0]])
    with pytest.raises(Exception) as error:
        model.fit({"inputs": inputs, "targets": targets}, targets, shuffle=False, verbose=0)
    told = str(marked_in(error.value) or error.value)
    assert "row 1 of the targets holds the id 12, " in told


USER_CODE = '''
import tensorflow as tf

from ut_tf import registry
from ut_tf.data.example_table import ExampleTable
from ut_tf.data.problem import EvaluationSet, Problem, ProblemSpec


@registry.register_problem("beyond")
class Beyond(Problem):
    """The examples of one of its splits have an id that is too large."""

    name = "beyond"
    selection_metric = ("char_acc", "max")

    def prepare(self, data_dir, tmp_dir):
        """Nothing."""

    def spec(self, data_dir):
        return ProblemSpec("tokens", "tokens", 12, 12, shared_vocab=True)

    def examples(self, split, data_dir, seed=0, epoch=0, length=None):
        ids = tf.fill([8, 4], 5)
        NAME = ids + 26 if split == "SPLIT" else ids
        return ExampleTable.from_dataset(
            tf.data.Dataset.from_tensor_slices({"inputs": ids, "targets": ids, "NAME": NAME})
        )

    def evaluation_sets(self, lengths=()):
        return [EvaluationSet("", "test", "greedy")]
'''


@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize("split", ["train", "validation"])
@pytest.mark.parametrize("name", ["inputs", "targets"])
def test_ids_of_a_problem_of_ones_own(
    name: str,
    split: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for known in vars(registry).values():
        if isinstance(known, registry.Registry):
            monkeypatch.setattr(known, "_registered", {})
    folder = tmp_path / f"beyond_in_{split}_{name}"
    folder.mkdir()
    (folder / "__init__.py").write_text(USER_CODE.replace("NAME", name).replace("SPLIT", split))
    sizes = "hidden_size=8,filter_size=8,num_heads=1,num_steps=1,batch_size=64,max_length=16"
    flags = [f"--usr_dir={folder}", "--problem=beyond", "--hparams_set=ut_algorithmic"]
    flags += [f"--hparams={sizes}", "--train_steps=1", "--num_gpus=0"]
    places = [f"--{place}={tmp_path / place}" for place in ("output_dir", "data_dir", "tmp_dir")]
    assert trainer.main([*flags, *places]) == 1
    errors = [line for line in capsys.readouterr().err.splitlines() if "error: " in line]
    assert len(errors) == 1
    assert f"row 0 of the {name} holds the id 31, and the ids of this vocabulary are" in errors[0]


class BeyondCodec(toy.QuestionCodec):
    """One whose ids are too large where a text has a j."""

    def encode(self, *texts: Any) -> dict[str, Any]:
        ids = super().encode(*texts)["inputs"]
        return {"inputs": tf.where(ids == toy.VOCABULARY - 1, 31, ids)}


class BeyondQuestions(toy.Questions):
    name = "letters_beyond"
    codec: ClassVar[type[TextCodec]] = BeyondCodec


def test_ids_of_a_served_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = {**registry.problems._registered}
    monkeypatch.setattr(registry.problems, "_registered", known)
    registry.problems.register("letters_beyond", BeyondQuestions)
    run = toy.untrained_run(tmp_path, "letters_beyond", "halting=none,num_steps=1")
    export = export_run(run, tmp_path / "export", signatures=["classify"], warmup=False)
    rows = [{"story": story, "question": "a"} for story in ("ab", "cj")]
    with served(ServedModel(export, 1)) as server:
        body = json.dumps({"signature_name": "classify", "instances": rows})
        reply = requests.post(f"{server.address}/v1/models/toy:predict", data=body, timeout=9)
    assert reply.status_code == 400
    assert "row 1 of the inputs holds the id 31, " in reply.json()["error"]
