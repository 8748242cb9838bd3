"""The options of decoding as text, and which of them cannot be."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any, ClassVar

import pytest

from ut_tf import registry
from ut_tf.config.fields import option
from ut_tf.errors import UserError
from ut_tf.search.config import DecodeConfig
from ut_tf.search.greedy import Greedy
from ut_tf.search.strategies import make_strategy


def test_text_sets_fields_by_their_types() -> None:
    config = DecodeConfig.from_text("beam_size=2, alpha=0.1,write_beam_scores=true")
    assert config == DecodeConfig(beam_size=2, alpha=0.1, write_beam_scores=True)
    assert DecodeConfig.from_text("") == DecodeConfig()
    assert DecodeConfig.from_dict(config.to_dict()) == config
    assert (
        config.override("beam_size=3").beam_size == 3
        and config.override("beam_size=3").alpha == 0.1
    )


def test_tensor2tensors_return_beams_means_the_whole_beam() -> None:
    assert DecodeConfig.from_text("return_beams=True,beam_size=6").n_best == 6
    assert DecodeConfig.from_text("return_beams=true,beam_size=6,n_best=2").n_best == 2
    assert DecodeConfig.from_text("return_beams=False").n_best == 1


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


def test_values_and_names_given_in_python_are_checked_like_texts() -> None:
    with pytest.raises(UserError) as error:
        DecodeConfig(alpha=float("nan"), beam_size=2.5, sampling=1, temperature=None)  # type: ignore[arg-type]
    for part in (
        "alpha=nan: expected a finite",
        "beam_size=2.5: expected a whole",
        "sampling=1: expected true",
        "temperature=None: expected",
    ):
        assert part in str(error.value)
    assert isinstance(DecodeConfig(alpha=1).alpha, float)
    with pytest.raises(
        UserError, match=re.escape("unknown option 'beam_sise' (did you mean beam_size")
    ):
        DecodeConfig.from_dict({"beam_sise": 4})


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
