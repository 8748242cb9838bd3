"""``dropout`` and the two rates inside a block, which follow it."""

from __future__ import annotations

import typing

import pytest

from ut_tf.config.hparams import HParams, going_on
from ut_tf.factories import hparams_of


@pytest.mark.parametrize("rate", [0.0, 0.2])
@pytest.mark.parametrize("model", ["universal_transformer", "transformer", "mem_transformer"])
def test_the_rates_inside_a_block_are_those_of_dropout_unless_they_are_given(model, rate):
    def rates(network: typing.Any) -> tuple[float, float, float]:
        return network.dropout, network.attention_dropout, network.relu_dropout

    one = HParams(model).override(f"dropout={rate}").resolve()
    assert rates(one.network) == (rate, rate, rate)
    assert rates(HParams(model).resolve().network) == (0.1, 0.1, 0.1)
    two = HParams(model).override(f"dropout={rate},relu_dropout=0.05").resolve()
    assert rates(two.network) == (rate, rate, 0.05)
    # What a resolved one states is stated.
    assert rates(two.change(dropout=0.3).network) == (0.3, rate, 0.05)


def test_dropout_of_0_says_what_a_set_keeps():
    kept = hparams_of("ut_base", "dropout=0", None)[0]
    (note,) = kept.notes_on("dropout=0")
    assert "attention_dropout=0.1 and relu_dropout=0.1" in note
    assert "add attention_dropout=0,relu_dropout=0 for no dropout" in note
    for hparams_set, text in (
        ("ut_base", "dropout=0,attention_dropout=0,relu_dropout=0.1"),
        ("ut_base", "dropout=0.2"),
        ("ut_tiny", "dropout=0"),
        ("ut_babi", "dropout=0"),
        ("lstm_tiny", "dropout=0"),
    ):
        assert hparams_of(hparams_set, text, None)[0].notes_on(text) == []


def test_a_run_of_0_4_goes_on_with_the_rates_that_it_had():
    def rates(hparams: HParams) -> tuple[float, float]:
        return hparams.network.attention_dropout, hparams.network.relu_dropout

    stored = HParams().change(dropout=0.0, attention_dropout=0.1, relu_dropout=0.1).resolve()
    asked = HParams().change(dropout=0.0).resolve()
    assert rates(going_on(asked, stored, {"dropout"}, {"dropout"})) == (0.1, 0.1)
    given = {"dropout", "relu_dropout"}
    # What is given now, or was given then, is compared as it is.
    assert rates(going_on(asked, stored, given, {"dropout"})) == (0.1, 0.0)
    assert rates(going_on(asked, stored, {"dropout"}, given)) == (0.1, 0.0)
    other = stored.change(attention_dropout=0.2, relu_dropout=0.2)
    assert rates(going_on(asked, other, {"dropout"}, {"dropout"})) == (0.0, 0.0)
