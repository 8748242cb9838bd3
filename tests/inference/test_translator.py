"""The translator on models whose every output is known: order, windows, damaged and endless lines,
scores.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.layers.test_attention import needs_int8
from ut_tf import registry
from ut_tf.config.hparams import HParams, converted
from ut_tf.errors import UserError
from ut_tf.inference import int8_decoder
from ut_tf.inference.int8_decoder import Int8Decoder, decoder_in
from ut_tf.inference.translator import Translator
from ut_tf.models.universal_transformer.config import UniversalTransformerConfig
from ut_tf.problem_spec import ProblemSpec
from ut_tf.problems.algorithmic.problem import Algorithmic
from ut_tf.problems.babi.codec import StoryCodec
from ut_tf.search.config import DecodeConfig

VOCABULARY = 12


class Echo:
    """Is certain that the targets are the inputs; counts its calls."""

    supports_incremental_decoding = False
    spec = ProblemSpec("tokens", "tokens", VOCABULARY, VOCABULARY, shared_vocab=True)

    def __init__(self, certainty: float = 20.0) -> None:
        self.certainty = certainty
        self.shapes: list[Any] = []

    def __call__(self, features: dict[str, Any], training: bool = False) -> Any:
        assert not training
        self.shapes.append(features["inputs"].shape)
        inputs, length = features["inputs"], tf.shape(features["targets"])[1]
        ended = tf.pad(
            inputs, [[0, 0], [0, tf.maximum(length - tf.shape(inputs)[1], 0)]], constant_values=1
        )[:, :length]
        return self.certainty * tf.one_hot(tf.where(ended == 0, 1, ended), VOCABULARY)


class Oracle:
    """Answers with class 1 + (number of rows, modulo 3), and is in doubt about class 0 only."""

    spec = ProblemSpec("facts", "class", 8, 4, max_words=9)

    def __call__(self, features: dict[str, Any], training: bool = False) -> Any:
        assert not training
        assert "targets" not in features
        rows = tf.math.count_nonzero(tf.reduce_any(features["inputs"] != 0, -1), 1, dtype=tf.int32)
        return tf.one_hot(1 + rows % 3, 4, on_value=9.0, off_value=0.0) + tf.constant(
            [8.0, 0, 0, 0]
        )


def translator(text: str = "", model: Any = None, **options: Any) -> Translator:
    return Translator(
        model or Echo(),
        Algorithmic("copy").text_codec(Path()),
        DecodeConfig.from_text(text),
        **options,
    )


def random_lines(count: int, longest: int = 30) -> list[str]:
    generator = np.random.default_rng(3)
    return [
        "".join(map(str, generator.integers(0, 10, size)))
        for size in generator.integers(1, longest, count)
    ]


@pytest.mark.parametrize(
    ("options", "read_ahead"),
    [("beam_size=1,batch_size=4", 3), ("beam_size=2,batch_size=7", 1)],
)
def test_answers_come_in_the_order_of_the_texts(options: str, read_ahead: int) -> None:
    lines = random_lines(30)
    found = list(translator(options, read_ahead=read_ahead).translate((line,) for line in lines))
    assert [one.text for (one,) in found] == lines


@pytest.mark.usefixtures("eager")
def test_an_answer_is_there_as_soon_as_its_batch_is_done() -> None:
    taken: list[int] = []

    def texts() -> Iterator[tuple[str]]:
        for number, line in enumerate(["123456789", "1", "2", "3", "4", "5"]):
            taken.append(number)
            yield (line,)

    echo = Echo()
    answers = translator("beam_size=1,batch_size=2", echo, read_ahead=2).translate(texts())
    assert next(answers)[0].text == "123456789"
    assert taken == [0, 1, 2, 3]
    assert [one.text for (one,) in answers] == ["1", "2", "3", "4", "5"]


def test_each_graph_is_traced_once_whatever_the_sizes() -> None:
    ours = translator("beam_size=1,batch_size=3", echo := Echo())
    list(ours.translate((line,) for line in random_lines(20)))
    traced = len(echo.shapes)
    list(ours.translate((line,) for line in random_lines(11, 60)))
    assert len(echo.shapes) == traced
    assert all(shape.as_list() == [None, None] for shape in echo.shapes)


@pytest.mark.usefixtures("eager")
def test_empty_lines_give_empty_answers_with_score_0_and_harm_no_other() -> None:
    lines = ["", "12", "   ", "\t", "3", ""]
    found = list(
        translator("beam_size=2,n_best=2,batch_size=2").translate((line,) for line in lines)
    )
    assert [pair[0].text for pair in found] == ["", "12", "", "", "3", ""]
    assert [[(one.text, one.score) for one in found[place]] for place in (0, 2, 3, 5)] == [
        [("", 0.0)] * 2
    ] * 4
    assert list(translator().translate([])) == []


@pytest.mark.usefixtures("eager")
def test_an_endless_line_is_cut_with_a_warning_and_harms_no_other(
    capsys: pytest.CaptureFixture[str],
) -> None:
    endless = "7" * 10_000
    found = [
        one.text
        for (one,) in translator("beam_size=1,max_input_length=20").translate(
            [("12",), (endless,), ("3" * 19,), ("4" * 20,)]
        )
    ]
    assert found == ["12", "7" * 19, "3" * 19, "4" * 19]
    assert [line.partition(":")[0] for line in capsys.readouterr().err.splitlines()] == [
        "warning"
    ] * 2
    list(translator("beam_size=1,max_input_length=20").translate([("12",), (endless,)], first=41))
    assert "input 42 has more than max_input_length=20 symbols" in capsys.readouterr().err


@pytest.mark.slow
def test_long_batches_are_made_of_few_examples() -> None:
    shapes: list[Any] = []
    ours = translator("beam_size=1,batch_size=50,extra_length=0")
    run = ours._outputs
    ours._outputs = lambda features, numbers: (
        shapes.append(features["inputs"].shape) or run(features, numbers)
    )
    texts = [*random_lines(40), *["5" * 999] * 20]
    assert [one.text for (one,) in ours.translate((text,) for text in texts)] == texts
    assert all(rows * length <= 8192 for rows, length in shapes)
    assert max(rows for rows, _ in shapes) == 40


@pytest.mark.usefixtures("eager")
def test_what_was_read_before_a_mistake_is_answered_before_it_is_told() -> None:
    codec = Algorithmic("copy").text_codec(Path())
    answers = translator("beam_size=1").translate(codec.read(["12", "34", "x", "56"], "digits.txt"))
    assert [next(answers)[0].text, next(answers)[0].text] == ["12", "34"]
    with pytest.raises(UserError, match=r"digits\.txt, line 3"):
        next(answers)


@pytest.mark.usefixtures("eager")
def test_scores_are_log_probabilities_in_order() -> None:
    # Every symbol has the logit c and the eleven others 0: log p of a right one is -log(1 + 11
    # exp(-c)), of a wrong one c less.
    right = -np.log1p(11 * np.exp(-3.0))
    ours = translator("batch_size=2", Echo(3.0), read_ahead=2)
    pairs = [("1234", "1234"), ("12", "13"), ("7", ""), ("", ""), ("5", "555")]
    expected = [5 * right, 3 * right - 3, right - 3, right, 4 * right - 3 - 3]
    found = list(ours.score([(source,) for source, _ in pairs], [target for _, target in pairs]))
    # After its inputs the model expects ends: "555" has its first symbol right, two wrong ones, and
    # the end.
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.fixture
def stories(tmp_path: Path) -> StoryCodec:
    (tmp_path / "words.txt").write_text("<unknown>\nmary\njohn\nleft\nwhere\nis\n")
    (tmp_path / "answers.txt").write_text("kitchen\nhall\ngarden\nbathroom\n")
    return StoryCodec(tmp_path, "facts", 70)


@pytest.mark.usefixtures("eager")
def test_classes_are_answered_by_words_with_log_probabilities(stories: StoryCodec) -> None:
    ours = Translator(Oracle(), stories, DecodeConfig(n_best=2, batch_size=2))
    texts = [
        ("Mary left.\nJohn left.", "where"),
        ("", "where"),
        ("Mary left.", "where is John or whoever it was"),
        ("", " "),
    ]
    found = list(ours.translate(texts))
    assert [[one.text for one in pair] for pair in found] == [
        ["hall", "kitchen"],
        ["garden", "kitchen"],
        ["bathroom", "kitchen"],
        ["", ""],
    ]
    normaliser = np.log(np.exp(9) + np.exp(8) + 2)
    np.testing.assert_allclose(
        [one.score for one in found[0]], [9 - normaliser, 8 - normaliser], rtol=1e-5
    )
    scores = list(ours.score(texts[:2], ["Kitchen", "the moon"]))
    assert scores == [pytest.approx(8 - normaliser), -np.inf]


@pytest.mark.usefixtures("eager")
def test_words_that_the_vocabulary_lacks_are_named_of_the_whole_text(
    stories: StoryCodec, capsys: pytest.CaptureFixture[str]
) -> None:
    ours = Translator(Oracle(), stories, DecodeConfig(batch_size=1), read_ahead=1)
    texts = [("Mary left.", "where is Mary"), ("My dog ate.", "where is a shoe or hat")]
    answers = ours.translate([*texts, ("Mary slept.", "where"), ("My cat slept.", "where")])
    lacks = "that the model's vocabulary lacks, read as unknown"
    # The first ones at once, whatever is still to come.
    list(itertools.islice(answers, 2))
    assert capsys.readouterr().err == (
        f"warning: the input has words {lacks}: a, ate, dog, hat, my and 2 more.\n"
    )
    list(answers)
    assert capsys.readouterr().err == (
        f"warning: the input has 2 more words {lacks}: cat, slept.\n"
    )
    list(ours.translate(texts[:1]))
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("eager")
def test_texts_without_a_word_that_the_model_knows_are_refused(stories: StoryCodec) -> None:
    ours = Translator(Oracle(), stories, DecodeConfig())
    answers = ours.translate([("Mary left.", "where"), ("Mary left.", "xyzzy?"), ("", "where")])
    assert next(answers)[0].text == "bathroom"
    with pytest.raises(UserError, match=r"^the input, example 2"):
        next(answers)


@pytest.mark.usefixtures("stories")
@pytest.mark.usefixtures("eager")
def test_of_a_long_story_as_tokens_the_end_is_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    oracle = Oracle()
    oracle.spec = dataclasses.replace(oracle.spec, inputs="tokens")
    seen: list[Any] = []
    ours = Translator(oracle, StoryCodec(tmp_path, "tokens", 70), DecodeConfig(max_input_length=4))
    ours._outputs = lambda features, _: (
        seen.append(features["inputs"]) or (tf.constant([["x"]]), tf.zeros([1, 1]))
    )
    list(ours.translate([("Mary left.\nJohn left.", "where is john")]))
    assert seen[0].tolist() == [
        [6, 7, 4, 1]
    ]  # "where is john", the end: the question is what must not be lost.
    assert "the first ones are left out" in capsys.readouterr().err


def test_a_language_model_scores_texts() -> None:
    class Next(Echo):
        spec = ProblemSpec("none", "tokens", 0, VOCABULARY)

        def __call__(self, features: dict[str, Any], training: bool = False) -> Any:
            assert set(features) == {"targets"} and not training
            return tf.zeros([*tf.unstack(tf.shape(features["targets"])), VOCABULARY])

    ours = translator(model=Next())
    ours.codec.fields = ()
    np.testing.assert_allclose(
        list(ours.score([(), ()], ["123", ""])),
        [-4 * np.log(VOCABULARY), -np.log(VOCABULARY)],
        rtol=1e-5,
    )


@pytest.mark.parametrize("texts", ["1234", b"12", None, 5])
def test_a_text_alone_is_no_list_of_examples(texts: Any) -> None:
    with pytest.raises(UserError, match=r"expected a list of examples, such as \['a text'\]"):
        translator().translate(texts)


SPEC = ProblemSpec("tokens", "tokens", 12, 12, shared_vocab=True)
FEATURES = {"inputs": tf.constant([[3, 4, 5, 1], [6, 7, 1, 0]])}


def make_model(name: str, **changes: Any) -> Any:
    network = UniversalTransformerConfig(hidden_size=16, filter_size=32, num_heads=2, num_steps=2)
    hparams = converted(HParams(network=network), name)[0].change(**changes).resolve()
    model = registry.models.get(name)(hparams.network, SPEC)
    generator = np.random.default_rng(0)
    for weight in model.trainable_variables:
        weight.assign(generator.normal(scale=0.4, size=weight.shape))
    return model


@needs_int8
@pytest.mark.parametrize(
    "name",
    [
        *("universal_transformer", "lstm", "bytenet"),
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("transformer", "convs2s", "mem_transformer")
        ),
    ],
)
def test_logits_are_nearly_those_in_float(name: str) -> None:
    model = make_model(name)
    decoder = Int8Decoder(model, least_size=1)
    symbols = np.random.default_rng(1).integers(2, 12, [2, 3]).astype(np.int32)
    logits: dict[str, Any] = {}
    for kind, part in (("float", model), ("int8", decoder)):
        cache = part.start_decoding(FEATURES, tf.constant(3))
        for index in range(3):
            logits[kind], cache = part.decode_step(symbols[:, index], tf.constant(index), cache)
    difference = np.linalg.norm(logits["int8"] - logits["float"])
    assert 0 < difference < 0.1 * np.linalg.norm(logits["float"])


def test_without_int8_products_the_model_computes_in_float_and_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    model = make_model("universal_transformer")
    monkeypatch.setattr(int8_decoder, "has_exact_sums", lambda: tf.constant(False))
    assert decoder_in(model, "float") is model
    assert not capsys.readouterr().err
    assert decoder_in(model, "int8") is model
    assert "no int8 products" in capsys.readouterr().err
    # An export that was made elsewhere.
    decoder = Int8Decoder(model, least_size=1)
    run = tf.function(lambda: decoder.start_decoding(FEATURES, tf.constant(3)), autograph=False)
    with pytest.raises(tf.errors.InvalidArgumentError, match="export with compute_type=float"):
        run()


def test_a_classifier_computes_in_float_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    network = UniversalTransformerConfig(hidden_size=16, filter_size=32, num_heads=2, num_steps=1)
    model = registry.models.get("universal_transformer")(
        network, ProblemSpec("tokens", "class", 12, 3)
    )
    assert decoder_in(model, "int8") is model
    assert "decodes nothing" in capsys.readouterr().err


def test_a_model_that_computes_whole_prefixes_is_refused() -> None:
    with pytest.raises(UserError, match="cannot decode incrementally"):
        decoder_in(make_model("universal_transformer", halting="global"), "int8")
