"""Decoding at its edges: no examples, no prefix, types that users have, models and features that
cannot be decoded.
"""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any, ClassVar

import numpy as np
import pytest
import tensorflow as tf

from tests.search.models import (
    CLASSES,
    INPUTS,
    LANGUAGE,
    Table,
    random_model,
    unpadded,
)
from ut_tf import registry
from ut_tf.config.fields import option
from ut_tf.errors import UserError
from ut_tf.search.config import DecodeConfig
from ut_tf.search.contract import DecoderModel
from ut_tf.search.greedy import Greedy
from ut_tf.search.strategies import Decoded, decode, greedy_decode, make_strategy
from ut_tf.symbols import END_ID

SEARCHES: tuple[dict[str, Any], ...] = (
    {"beam_size": 1},
    {"beam_size": 2, "n_best": 2},
    {"sampling": True, "n_best": 3},
)
# Any symbol of 2, 3 and 4 goes on for ever.
ENDLESS = [[0, 0, 0.2, 0.3, 0.5]] * 5


@pytest.mark.slow
@pytest.mark.parametrize("options", SEARCHES)
def test_no_examples_have_no_outputs(options: dict[str, Any]) -> None:
    model, config = random_model(num_steps=1), DecodeConfig(extra_length=4, **options)
    graph = tf.function(
        lambda inputs: decode(model, {"inputs": inputs}, config),
        input_signature=[tf.TensorSpec([None, None], tf.int32)],
        autograph=False,
    )
    outputs = config.n_best
    for found in (
        graph(INPUTS[:0]),
        decode(model, {"inputs": INPUTS[:0]}, config, incremental=False),
    ):
        assert found.symbols.shape == (0, outputs, 0) and found.scores.shape == (0, outputs)
    # The same graph decodes examples, too.
    assert graph(INPUTS).scores.shape == (3, outputs)
    assert greedy_decode(model, {"inputs": INPUTS[:0]}, 4).shape == (0, 4)


@pytest.mark.parametrize("options", SEARCHES)
def test_int64_prefixes_of_any_length(options: dict[str, Any]) -> None:
    def outputs(features: dict[str, Any], **lengths: int) -> list[list[list[int]]]:
        return [
            unpadded(one)
            for one in decode(Table(ENDLESS), features, DecodeConfig(**lengths, **options)).symbols
        ]

    freely = outputs({"batch_size": tf.constant(2, tf.int64)}, max_length=5)
    assert outputs({"prefix": np.zeros([2, 0], np.int64)}, max_length=5) == freely
    for written in outputs({"prefix": np.array([[3, 4, 3], [2, 2, 0]])}, max_length=5)[0]:
        assert written[:3] == [3, 4, 3] and len(written) == 5
    # A prefix is stronger than a forced end, and is cut at the forced length.
    assert outputs({"prefix": np.array([[3, 4, 3]])}, force_length=2)[0][0] == [3, 4]


def test_features_and_models_that_cannot_be_decoded() -> None:
    language, translator = (
        random_model(spec=LANGUAGE, num_steps=1),
        random_model(num_steps=1, halting="global"),
    )
    with pytest.raises(UserError, match="writes no sequence"):
        random_model(spec=CLASSES, num_steps=1).generate({"inputs": INPUTS})
    for features in ({}, {"inputs": INPUTS}):
        with pytest.raises(UserError, match="batch_size or prefix"):
            language.generate(features)
    with pytest.raises(UserError, match="no features to decode"):
        decode(language, {}, DecodeConfig())
    with pytest.raises(UserError, match="the `features` have prefix: give inputs"):
        translator.generate({"prefix": INPUTS})
    with pytest.raises(UserError, match="cannot decode incrementally"):
        greedy_decode(translator, {"inputs": INPUTS}, 3, incremental=True)
    with pytest.raises(UserError, match=r"unknown option 'beem_size' .*beam_size"):
        translator.generate({"inputs": INPUTS}, beem_size=2)
    assert isinstance(language.generate({"batch_size": np.int64(2)}, max_length=2), Decoded)


class Plain(DecoderModel):
    """A model that says nothing of its own."""


CACHE = {
    "constants": tf.constant([7.0]),
    "examples": tf.constant([[1.0], [2.0]]),
    "state": [tf.constant([[10.0, 11.0], [20.0, 21.0]])],
}


def test_hypotheses_take_the_state_of_their_parents() -> None:
    cache = Plain().reorder_cache(CACHE, tf.constant([[1, 1], [0, 0]]))
    np.testing.assert_array_equal(cache["state"][0], [[11.0, 11.0], [20.0, 20.0]])
    assert cache["constants"] is CACHE["constants"]
    assert cache["examples"] is CACHE["examples"]


def test_examples_leave_with_all_that_is_theirs() -> None:
    cache = Plain().resize_cache(CACHE, tf.constant([1]), capacity=64)
    np.testing.assert_array_equal(cache["state"][0], [[20.0, 21.0]])
    np.testing.assert_array_equal(cache["examples"], [[2.0]])
    np.testing.assert_array_equal(cache["constants"], [7.0])


class Countdown(DecoderModel):
    """Writes the first input's symbol down to 2 and ends; `steps` is how often it ran."""

    supports_incremental_decoding = True

    def start_decoding(
        self, features: dict[str, Any], capacity: Any, beam_size: int
    ) -> dict[str, Any]:
        del capacity, beam_size
        return {
            "examples": {"start": features["inputs"][:, 0]},
            "steps": tf.zeros_like(features["inputs"][:, :1]),
        }

    def decode_step(
        self, symbols: Any, step: Any, cache: dict[str, Any]
    ) -> tuple[Any, dict[str, Any]]:
        previous = tf.where(step == 0, cache["examples"]["start"] + 1, symbols)
        favourite = tf.where(previous <= 2, END_ID, previous - 1)
        # Padding is even more probable, and must not be chosen all the same.
        logits = tf.one_hot(favourite, 9) + 2.0 * tf.one_hot(tf.zeros_like(favourite), 9)
        tf.debugging.assert_less(
            cache["steps"], 5, "decoding goes on after all sequences have ended"
        )
        return logits, {**cache, "steps": cache["steps"] + 1}


def test_sequences_end_one_by_one_and_padding_follows() -> None:
    symbols = tf.function(lambda inputs: greedy_decode(Countdown(), {"inputs": inputs}, 7))(
        tf.constant([[4, 1], [2, 1], [5, 1]])
    )
    assert symbols.numpy().tolist() == [
        [4, 3, 2, 1, 0, 0, 0],
        [2, 1, 0, 0, 0, 0, 0],
        [5, 4, 3, 2, 1, 0, 0],
    ]


@pytest.mark.slow
def test_language_models_take_the_batch_from_what_is_there() -> None:
    for changes in ({"halting": "basic"}, {"halting": "global"}):
        model = random_model(spec=LANGUAGE, **changes)
        written = greedy_decode(
            model, {"targets": tf.ones([2, 3], tf.int32), "weight": tf.ones([2])}, 2
        )
        np.testing.assert_array_equal(written, greedy_decode(model, {"batch_size": 2}, 2))
        assert written.shape == (2, 2)


def test_text_sets_fields_by_their_types() -> None:
    config = DecodeConfig.from_text("beam_size=2, alpha=0.1,write_beam_scores=true")
    assert config == DecodeConfig(beam_size=2, alpha=0.1, write_beam_scores=True)
    assert DecodeConfig.from_text("") == DecodeConfig()
    assert DecodeConfig.from_dict(config.to_dict()) == config
    assert (
        config.override("beam_size=3").beam_size == 3
        and config.override("beam_size=3").alpha == 0.1
    )


def test_all_mistakes_are_named_at_once() -> None:
    with pytest.raises(UserError) as error:
        DecodeConfig.from_text("beam_sise=4,alpha=high,num_samples=2,batch_size")
    message = str(error.value)
    for part in (
        "'beam_sise' (did you mean beam_size",
        "alpha=high: expected a finite number",
        "n_best, with sampling=true",
        "'batch_size' is no",
    ):
        assert part in message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("n_best=5", "n_best=5 is more than beam_size=4"),
        ("min_length=6,max_length=5", "min_length=6 is more than max_length=5"),
        ("temperature=0,sampling=true", "temperature=0: expected above 0"),
        ("top_k=3", "belong to sampling"),
        ("strategy=beem", "strategy=beem"),
        ("strategy=beam,sampling=true", "sampling=true contradicts strategy=beam"),
    ],
)
def test_what_cannot_be(text: str, message: str) -> None:
    with pytest.raises(UserError, match=re.escape(message)):
        DecodeConfig.from_text(text)


def test_auto_is_sampling_greedy_or_beam_as_the_other_options_say() -> None:
    assert DecodeConfig().strategy_name == "beam"
    assert DecodeConfig(beam_size=1).strategy_name == "greedy"
    assert DecodeConfig(sampling=True, beam_size=1).strategy_name == "sampling"
    assert DecodeConfig(strategy="beam", beam_size=1).strategy_name == "beam"
    assert DecodeConfig.from_text("strategy=sampling,top_k=3,n_best=9").strategy_name == "sampling"


def test_a_strategy_has_options_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    class Ranked(Greedy):
        options: ClassVar[dict[str, Any]] = {"rank": option(2, "which symbol", at_least=1)}

        def __init__(self, config: DecodeConfig, rank: int) -> None:
            super().__init__(config)
            self.rank = rank

    monkeypatch.setattr(registry.strategies, "_registered", {})
    registry.register_strategy("ranked")(Ranked)
    config = DecodeConfig.from_text("strategy=ranked,strategy.rank=3")
    assert make_strategy(config).rank == 3  # type: ignore[attr-defined]
    assert DecodeConfig.from_dict(config.to_dict()) == config
    assert make_strategy(config.override("strategy=greedy")).config.part_options == {}
    for text in ("strategy=ranked,strategy.rank=0", "strategy.rank=3", "strategy=ranked,rank=1"):
        with pytest.raises(UserError, match=r"decoding options: .*rank"):
            DecodeConfig.from_text(text)


def test_options_need_no_tensorflow() -> None:
    code = (
        "import sys, ut_tf.search.config as config; config.DecodeConfig.from_text('alpha=1');"
        " sys.exit('tensorflow' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
