"""The numbers of a document against the model's own, computed another way."""

from __future__ import annotations

import base64
import functools
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import ut_tf
from tests.bin.tiny_runs import digits_run, stories_run
from tests.insights.documents import STORED, attention, best, numbers, texts
from tests.serving.toy import untrained_run
from ut_tf import registry
from ut_tf.data.problem import Problem
from ut_tf.errors import UserError
from ut_tf.insights.encoding import encoded_attention
from ut_tf.insights.exits import exit_steps
from ut_tf.insights.observed import observe
from ut_tf.models.universal_transformer.exit_rules import StateDifference
from ut_tf.problems.algorithmic.problem import Algorithmic

pytestmark = pytest.mark.usefixtures("eager")

STORY = "1 Mary moved to the kitchen.\n2 John left.\n3 Where is Mary?"
TINY_ACT = "hidden_size=8,filter_size=8,num_heads=2,transition=fc,act_max_steps=4"


def close(actual: Any, expected: Any) -> None:
    """Equal but for the rounding to 4 digits."""
    np.testing.assert_allclose(np.asarray(actual, float), np.asarray(expected), atol=1e-4)


def seen_by(model: Any, features: dict[str, Any]) -> tuple[Any, Any, list[Any]]:
    """The logits, the details and what an observer sees, of one example."""
    views: list[Any] = []
    logits, details = model(features, return_attention=True, observer=views.append)
    return logits.numpy()[0], details, views


def assert_part(part: dict[str, Any], details: Any, views: list[Any]) -> None:
    """A part of a document holds what the details and the observer say."""
    steps = len(views)
    assert part["steps"] == steps <= part["max_steps"]
    close(numbers(part, "ponder_time"), details.ponder_times[0])
    close(numbers(part, "remainder"), details.remainders[0])
    if details.halting_probabilities is None:
        assert part["halting_probability"] is None
    else:
        close(part["halting_probability"], details.halting_probabilities[:steps, 0])
    states = [view.state.numpy()[0] for view in views]
    changes = [
        np.linalg.norm(after - before, axis=-1) / np.linalg.norm(after, axis=-1)
        for before, after in itertools.pairwise(states)
    ]
    close(part["state_change"][1:], np.reshape(changes, [steps - 1, -1]))
    weights = attention(part)
    np.testing.assert_allclose(weights, details.attention_weights[:steps, 0], atol=0.5 / 255)
    np.testing.assert_allclose(weights.sum(-1), 1.0, atol=0.5 * weights.shape[-1] / 255)


@pytest.fixture(scope="module")
def stories(tmp_path_factory: pytest.TempPathFactory) -> ut_tf.Run:
    folder = tmp_path_factory.mktemp("stories")
    return stories_run(folder / "run", hparams_set="ut_act_babi", hparams=TINY_ACT)


def test_a_halting_classifier(stories: ut_tf.Run) -> None:
    document = ut_tf.inspect_run(stories, STORY)
    (run,), (example,) = document["runs"], document["examples"]
    (thought,) = example["thoughts"]
    (part,) = thought["parts"]
    assert (run["kind"], run["halting"], run["checkpoint"]) == ("facts", "basic", 100)
    assert example["title"] == "Where is Mary?"
    assert texts(part) == ["mary moved to the kitchen", "john left", "where is mary"]
    assert [position["role"] for position in part["positions"]] == ["fact", "fact", "question"]
    model = ut_tf.load_model(stories)
    features = stories.text_codec().encode(
        tf.constant(["Mary moved to the kitchen.\nJohn left."]), tf.constant(["Where is Mary?"])
    )
    logits, details, views = seen_by(model, features)
    assert_part(part, details.encoder, views)
    scores = tf.nn.softmax(logits).numpy()
    order = np.argsort(-scores)
    assert [choice["text"] for choice in part["predictions"][-1][0]] == [
        ("hall", "kitchen", "garden")[number] for number in order
    ]
    close([choice["probability"] for choice in part["predictions"][-1][0]], scores[order])
    assert thought["answer"] == best(part)[0]
    assert thought["probability"] == part["predictions"][-1][0][0]["probability"]
    assert (example["target"], thought["correct"]) == (None, None)


@pytest.mark.slow
def test_an_earlier_answer_is_that_of_a_model_that_stops_there(stories: ut_tf.Run) -> None:
    full = ut_tf.inspect_run(stories, STORY)["examples"][0]["thoughts"][0]["parts"][0]
    assert full["steps"] > 1
    # Every position exits after the first step.
    short = stories.in_use("eval_exit=state_difference,eval_exit_threshold=1000000")
    stopped = ut_tf.inspect_run(short, STORY)["examples"][0]["thoughts"][0]["parts"][0]
    assert stopped["steps"] == 1
    assert full["predictions"][0] == stopped["predictions"][0]
    fixed = ut_tf.Run.load(STORED / "ut_facts" / "run")
    story = "1 Mary moved to the kitchen\n2 Where is Mary?"
    deep, shallow = (
        ut_tf.inspect_run(fixed.in_use(f"eval_num_steps={steps}"), story)["examples"][0]
        for steps in (3, 2)
    )
    (deep,), (shallow,) = deep["thoughts"][0]["parts"], shallow["thoughts"][0]["parts"]
    assert (deep["halting_probability"], deep["steps"], shallow["steps"]) == (None, 3, 2)
    assert numbers(deep, "ponder_time") == [3.0, 3.0]
    assert deep["predictions"][:2] == shallow["predictions"]
    assert deep["state_change"][:2] == shallow["state_change"]


def test_the_first_exit_of_a_rule_is_where_the_rule_stops_the_model(stories: ut_tf.Run) -> None:
    model = ut_tf.load_model(stories)
    features = stories.text_codec().encode(
        tf.constant(["Mary moved.\nJohn left."]), tf.constant(["Where is Mary?"])
    )
    part = observe(model, features).encoder
    assert part is not None and part.state_changes is not None
    threshold = float(np.sort(part.state_changes.ravel())[2])
    steps = exit_steps({"near": StateDifference(threshold + 1e-6)}, part, ())["near"]
    below = part.state_changes < threshold + 1e-6
    taken = np.arange(1, part.steps + 1)[:, None] <= part.ponder_times
    first = np.where((below & taken).any(0), (below & taken).argmax(0) + 1, 0)
    assert [step or 0 for step in steps] == first.tolist()
    assert any(steps)
    used = stories.in_use(f"eval_exit=state_difference,eval_exit_threshold={threshold + 1e-6}")
    _, details = ut_tf.load_model(used)(features, return_details=True)
    earliest = min(step for step in steps if step is not None)
    exiting = [place for place, step in enumerate(steps) if step == earliest]
    assert details.encoder.ponder_times.numpy()[0, exiting].tolist() == [earliest] * len(exiting)


@pytest.mark.slow
def test_a_halting_sequence_to_sequence_model() -> None:
    run = ut_tf.Run.load(STORED / "ut_halting_reverse" / "run")
    (example,) = ut_tf.inspect_run(run, "3141", examples=0)["examples"]
    (thought,) = example["thoughts"]
    encoder, decoder = thought["parts"]
    assert thought["answer"] == "1413"
    assert texts(encoder) == ["<start>", *"3141", "<end>"]
    assert texts(decoder) == [*"1413", "<end>"] == best(decoder)
    codec = run.text_codec()
    features = {
        **codec.encode(tf.constant(["3141"])),
        "targets": codec.encode_targets(tf.constant(["1413"])),
    }
    model = ut_tf.load_model(run)
    written = model.generate(features, beam_size=1)
    assert codec.decode(written.symbols[:, 0]).numpy().tolist() == [b"1413"]
    close(thought["probability"], np.exp(written.scores[0, 0]))
    _, details, views = seen_by(model, features)
    assert_part(encoder, details.encoder, views[: encoder["steps"]])
    assert_part(decoder, details.decoder, views[encoder["steps"] :])
    shown = attention(decoder, "memory_attention")
    weights = details.decoder.memory_attention_weights[: decoder["steps"], 0]
    np.testing.assert_allclose(shown, weights, atol=0.5 / 255)
    assert encoder["predictions"] is None


def test_a_transformer_shows_its_layers() -> None:
    run = ut_tf.Run.load(STORED / "transformer_subwords" / "run")
    document = ut_tf.inspect_run(run, "the number 300", examples=0)
    (example,) = document["examples"]
    encoder, decoder = example["thoughts"][0]["parts"]
    assert example["thoughts"][0]["correct"] is None
    assert document["runs"][0]["exit_rules"] == document["runs"][0]["histograms"] == []
    layers = run.hparams.network.num_layers
    assert numbers(decoder, "ponder_time") == [float(layers)] * len(decoder["positions"])
    assert (encoder["halting_probability"], decoder["exit_steps"]) == (None, {})
    assert best(decoder) == texts(decoder)


@pytest.mark.slow
def test_a_language_model(tmp_path: Path) -> None:
    run = untrained_run(tmp_path, "letter_language")
    document = ut_tf.inspect_run(run, "badcab")
    (example,) = document["examples"]
    (thought,) = example["thoughts"]
    (part,) = thought["parts"]
    assert (part["name"], document["runs"][0]["kind"]) == ("decoder", "language_model")
    assert texts(part) == [*"badcab", "<end>"]
    targets = run.text_codec().encode_targets(tf.constant(["badcab"]))
    logits, details, views = seen_by(ut_tf.load_model(run), {"targets": targets})
    assert_part(part, details.decoder, views)
    symbols = ["", "<end>", *"abcdefghij"]
    assert best(part) == [symbols[number] for number in logits.argmax(-1)]
    # What follows the end of a typed text is unknown.
    assert (example["target"], thought["answer"]) == (None, best(part)[-1])
    assert thought["correct"] is None


@pytest.mark.slow
def test_a_problem_without_a_text_form_is_shown_as_ids(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Ids(Algorithmic):
        """Copying, without a text form."""

        text_codec = Problem.text_codec

    monkeypatch.setattr(registry.problems, "_registered", {})
    registry.problems.register("copy_ids", functools.partial(Ids, "copy", 10, 6, 20))
    run = digits_run(tmp_path / "run", problem="copy_ids")
    document = ut_tf.inspect_run(run, examples=1)
    (example,) = document["examples"]
    encoder, decoder = example["thoughts"][0]["parts"]
    assert all(text.isdecimal() for text in texts(encoder)[:-1])
    assert example["target"] == " ".join(texts(encoder)[:-1]) != ""
    assert len(best(decoder)) == len(texts(decoder))
    with pytest.raises(UserError, match="problem copy_ids has no text form"):
        ut_tf.inspect_run(run, "3 4")


@pytest.mark.slow
def test_two_runs_side_by_side(tmp_path: Path, stories: ut_tf.Run) -> None:
    other = stories_run(tmp_path / "run", hparams=TINY_ACT.replace("act_max_steps", "num_steps"))
    document = ut_tf.inspect_run(stories, STORY, compare_with=other)
    first, second = document["examples"][0]["thoughts"]
    assert [run["halting"] for run in document["runs"]] == ["basic", "none"]
    assert document["runs"][0]["name"] != document["runs"][1]["name"]
    assert (second["parts"][0]["steps"], texts(first["parts"][0])) == (4, texts(second["parts"][0]))
    document = ut_tf.inspect_run(other, STORY, compare_with=other.in_use("eval_exit=acceleration"))
    names = [run["name"] for run in document["runs"]]
    assert names == ["run (eval_exit=none)", "run (eval_exit=acceleration)"]
    digits = digits_run(tmp_path / "digits")
    with pytest.raises(UserError, match="reads tokens and answers with tokens"):
        ut_tf.inspect_run(stories, STORY, compare_with=digits)


@pytest.mark.slow
def test_histograms_count_the_positions_of_the_test_data() -> None:
    run = ut_tf.Run.load(STORED / "ut_halting_reverse" / "run")
    histograms = ut_tf.inspect_run(run, examples=0, histogram_examples=16)["runs"][0]["histograms"]
    assert [histogram["part"] for histogram in histograms] == ["encoder", "decoder"]
    table = run.make_problem().examples("test", run.data_dir)
    chosen = tf.range(16) * len(table) // 16
    _, details = ut_tf.load_model(run)(table.batch(chosen), return_details=True)
    for histogram, part in zip(histograms, details, strict=True):
        total = np.sum([group["counts"] for group in histogram["groups"]], 0)
        times = part.ponder_times.numpy()[part.mask.numpy() > 0].astype(int)
        np.testing.assert_array_equal(total, np.bincount(times))
    assert len(histograms[0]["groups"]) > 1


def test_what_cannot_be_read_is_told(stories: ut_tf.Run) -> None:
    with pytest.raises(UserError, match="begins with 1"):
        ut_tf.inspect_run(stories, "2 Where is Mary?")
    with pytest.raises(UserError, match="no example to read: expected sentences, and a question"):
        ut_tf.inspect_run(stories, "\n")
    long = "\n".join(f"{number} Mary left." for number in range(1, 600))
    document = ut_tf.inspect_run(stories, f"{long}\n600 Where is Mary?")
    assert len(document["examples"][0]["thoughts"][0]["parts"][0]["positions"]) <= 512


def test_many_keys_and_weights_are_reduced() -> None:
    weights = np.random.default_rng(0).dirichlet(np.ones(70), [2, 3, 5]).astype(np.float32)
    encoded = encoded_attention(weights)
    assert encoded is not None
    assert (encoded["shape"], encoded["averaged"]) == ([2, 3, 5, 16], False)
    keys = np.frombuffer(base64.b64decode(encoded["indices"]), "<u2").reshape(2, 3, 5, 16)
    levels = np.frombuffer(base64.b64decode(encoded["weights"]), np.uint8).reshape(2, 3, 5, 16)
    np.testing.assert_array_equal(keys, np.argsort(-weights, -1, kind="stable")[..., :16])
    np.testing.assert_array_equal(
        levels, np.round(255 * np.take_along_axis(weights, keys.astype(int), -1))
    )
    wide = encoded_attention(np.full([4, 8, 200, 200], 0.005, np.float32))
    assert wide is not None and (wide["shape"], wide["averaged"]) == ([4, 1, 200, 16], True)
