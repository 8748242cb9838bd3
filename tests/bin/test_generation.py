"""Text that a language model writes: a tiny one that has learned two sentences, through the
commands and in Python.
"""

from __future__ import annotations

import io
import sys
import types
from collections.abc import Callable
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.bin.tiny_runs import digits_run
from ut_tf.bin import decoder, show
from ut_tf.inference.translator import Translator
from ut_tf.run import Run
from ut_tf.search.config import DecodeConfig
from ut_tf.search.scoring import log_probabilities
from ut_tf.storage.checkpoints import CheckpointStore

SENTENCES = ("the cat sat on the mat", "a dog ran to the house")
SIZES = (
    "hidden_size=32,filter_size=32,num_heads=2,num_steps=1,dropout=0.0,dtype_policy=float32,"
    "vocab_size=300"
)
PROMPTS = ("the cat", "a dog ran", "", " the cat sat on the mat ")
GREEDY = "beam_size=1,alpha=0"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run whose checkpoint was trained without the trainer, whose graphs take longer."""
    folder = tmp_path_factory.mktemp("language_model")
    text = folder / "text.txt"
    text.write_text("".join(f"{SENTENCES[number % 2]}\n" for number in range(60)))
    run = Run.create(
        "lm_files",
        "ut_lm",
        SIZES,
        output_dir=folder / "run",
        data_dir=folder / "data",
        tmp_dir=folder,
        problem_args={"source_files": [str(text)], "window": 16, "fit_vocabulary": False},
    )
    model, problem = run.make_model(), run.make_problem()
    table = problem.examples("train", run.data_dir)
    features = table.batch(tf.range(len(table.lengths)))
    optimizer = keras.optimizers.Adam(0.02)
    optimizer.build(model.trainable_variables)

    @tf.function(autograph=False)
    def update() -> None:
        with tf.GradientTape() as tape:
            loss = -tf.reduce_mean(log_probabilities(model, features))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))

    for _ in range(45):
        update()
    CheckpointStore(run.output_dir).save(
        45, tf.train.Checkpoint(model=model), {"best_step": 45, "averaged": False}
    )
    return run


@pytest.fixture(scope="module")
def prompts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("prompts") / "prompts.txt"
    path.write_text("".join(f"{prompt}\n" for prompt in PROMPTS))
    return path


@pytest.fixture
def decode(run: Run, capsys: pytest.CaptureFixture[str]) -> Callable[..., list[str]]:
    """Calls ut-decoder; returns the lines on standard output, or the error."""

    def call(*flags: str, status: int = 0) -> list[str]:
        capsys.readouterr()
        assert decoder.main([f"--output_dir={run.output_dir}", *flags]) == status
        captured = capsys.readouterr()
        return (captured.err if status else captured.out).splitlines()

    return call


@pytest.mark.usefixtures("eagerly")
def test_greedy_continuations_are_the_sentences_that_were_learned(
    decode, prompts, tmp_path, monkeypatch
) -> None:
    given = (f"--prompt_file={prompts}", f"--decode_hparams={GREEDY},write_beam_scores=true")
    lines = decode(*given)
    texts, scores = zip(*(line.split("\t") for line in lines), strict=True)
    assert texts[:2] == (" sat on the mat", " to the house")
    # An empty prompt begins a text, and one that ends as a text does has nothing behind it.
    assert (texts[2].strip() != "", texts[3]) == (True, "")
    # The score is that of the prompt and what follows it.
    whole = tmp_path / "whole.txt"
    whole.write_text(
        "".join(f"{prompt}{text}\n" for prompt, text in zip(PROMPTS, texts, strict=True))
    )
    scored = decode(f"--score_file={whole}")
    np.testing.assert_allclose([*map(float, scores)], [*map(float, scored)], atol=1e-4)
    stdin = types.SimpleNamespace(buffer=io.BytesIO(prompts.read_bytes()), isatty=lambda: False)
    monkeypatch.setattr(sys, "stdin", stdin)
    assert decode("--prompt_file=-", given[1]) == lines


@pytest.mark.slow
@pytest.mark.usefixtures("eagerly")
def test_samples_follow_from_the_seed_and_the_number_of_the_prompt(decode, prompts) -> None:
    hot = "--decode_hparams=sampling=true,top_k=20,n_best=3,temperature=3,extra_length=4"
    lines = decode(f"--prompt_file={prompts}", hot, "--random_seed=4")
    alone = decode(f"--prompt_file={prompts}", f"{hot},batch_size=1", "--random_seed=4")
    assert (alone, len(set(lines[0].split("\t")))) == (lines, 3)
    assert decode(f"--prompt_file={prompts}", hot, "--random_seed=5") != lines


def length_of(run: Run) -> Callable[[str], int]:
    """Returns the number of symbols of texts, without their ends."""
    return lambda text: int(tf.size(run.text_codec().encode_targets(tf.constant([text])))) - 1


@pytest.mark.slow
@pytest.mark.usefixtures("eagerly")
def test_lengths_count_the_prompt(decode, run, prompts, capsys) -> None:
    ours = Translator.from_run(run, config=DecodeConfig(beam_size=1, max_length=4))
    short, long = map(length_of(run), ("the cat", "the cat sat on the mat"))
    ((best,),) = ours.translate([("",)])
    assert 0 < length_of(run)(best.text) <= 4
    limited = f"--decode_hparams=beam_size=1,max_length={long}"
    (error,) = decode(f"--prompt_file={prompts}", limited, status=1)
    assert f"example 4: the prompt has {long} symbols" in error and f"at most {long}" in error
    cut = Translator.from_run(run, config=DecodeConfig(beam_size=1, max_input_length=short))
    ((of_end,),) = cut.translate([("on the mat and the cat",)])
    assert "prompt 1 has more than" in (told := capsys.readouterr().err)
    assert "the first ones are left out" in told
    ((alone,),) = cut.translate([("the cat",)])
    assert of_end.text == alone.text == " sat on the mat"


@pytest.mark.usefixtures("eagerly")
def test_prompts_are_for_language_models_alone(decode, prompts, tmp_path, capsys) -> None:
    (error,) = decode(f"--decode_from_file={prompts}", status=2)
    assert "--prompt_file" in error and "lm_files is a language model" in error
    (error,) = decode(f"--prompt_file={prompts}", f"--score_file={prompts}", status=2)
    assert "give one of them" in error
    digits = digits_run(tmp_path / "digits").output_dir
    assert decoder.main([f"--output_dir={digits}", f"--prompt_file={prompts}"]) == 2
    assert "no language model" in capsys.readouterr().err


@pytest.mark.usefixtures("eagerly")
def test_ut_show_goes_on_from_what_is_typed(run, capsys) -> None:
    capsys.readouterr()
    assert show.main([f"--output_dir={run.output_dir}", "--input=a dog ran"]) == 0
    *_, answer, continuation = capsys.readouterr().out.splitlines()
    # The next symbol and its probability, then a text that is drawn.
    assert "to" in answer and "%" in answer
    assert continuation.startswith("  goes on: to ")
