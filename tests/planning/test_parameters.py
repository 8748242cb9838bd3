"""The counted parameters are those of the model that is built."""

from __future__ import annotations

import dataclasses

import pytest

from ut_tf.config.hparams import HParams
from ut_tf.errors import UserError
from ut_tf.factories import make_hparams, make_model
from ut_tf.layers.catalogue import TRANSITIONS
from ut_tf.models.universal_transformer.catalogue import CELLS
from ut_tf.planning.parameters import count_parameters
from ut_tf.planning.sizes import Sizes
from ut_tf.problem_spec import ProblemSpec

TRANSLATION = ProblemSpec("tokens", "tokens", 7, 7, shared_vocab=True)
TWO_TABLES = dataclasses.replace(TRANSLATION, target_vocab_size=5, shared_vocab=False)
LANGUAGE_MODEL = ProblemSpec("none", "tokens", 0, 7)
CLASSES = ProblemSpec("tokens", "class", 7, 3)
WORDS = ProblemSpec("tokens", "word", 7, 7)
ALIGNED = ProblemSpec("tokens", "aligned", 7, 4)
STORIES = ProblemSpec("facts", "class", 9, 6, max_words=4)
SMALL = "hidden_size=8,filter_size=12,num_heads=2"
UT, TRANSFORMER = "universal_transformer", "transformer"


@pytest.mark.parametrize(
    ("model", "overrides", "spec"),
    [
        (UT, "num_steps=2", TRANSLATION),
        (UT, "norm=pre,attention_bias=True,shared_embedding=False", TWO_TABLES),
        (UT, "halting=basic,relative_bias=3,position=learned", STORIES),
        (UT, "halting=pondernet,position=rotary", LANGUAGE_MODEL),
        (UT, "halting=random,transition=sepconv", TRANSLATION),
        (UT, "recurrence=gru,step_encoding=learned,eval_num_steps=3", CLASSES),
        (UT, "recurrence=lstm", WORDS),
        (UT, "head_size=5,attention_bias=True", TRANSLATION),
        (UT, "coordinate_form=concat,step_encoding=learned,eval_num_steps=3", TRANSLATION),
        (UT, "coordinate_form=concat,position=learned", LANGUAGE_MODEL),
        (UT, "coordinate_form=concat,step_encoding=none", ALIGNED),
        (UT, "recurrence=highway,couple_carry_transform_gates=False", ALIGNED),
        (UT, "recurrence=skip,recurrence_layers=2,input_start_symbol=True", TRANSLATION),
        (UT, "recurrence=dwa,target_space_embedding=True", TRANSLATION),
        (UT, "recurrent_layer=gru,mix_layers_before=1,mix_layers_after=2,norm=pre", TRANSLATION),
        (UT, "recurrent_layer=lstm", TRANSLATION),
        ("conditional_universal_transformer", "num_steps=3,recurrence=skip", TRANSLATION),
        (TRANSFORMER, "num_layers=3,norm=pre", TWO_TABLES),
        (TRANSFORMER, "num_layers=2,position=none", LANGUAGE_MODEL),
    ],
)
def test_parameters_are_those_of_the_built_model(
    model: str, overrides: str, spec: ProblemSpec
) -> None:
    hparams = HParams(model).override(f"{SMALL},{overrides}").resolve()
    counted = count_parameters(Sizes.of(model, hparams.network, spec))
    assert counted == make_model(hparams, spec, seed=0).count_params()


@pytest.mark.parametrize(
    "part",
    [*(f"recurrence={name}" for name in CELLS), *(f"transition={name}" for name in TRANSITIONS)],
)
def test_every_built_in_part_can_be_planned(part: str) -> None:
    hparams = HParams(UT).override(f"{SMALL},num_steps=2,{part}").resolve()
    planned = count_parameters(Sizes.of(UT, hparams.network, CLASSES))
    made = make_model(hparams, CLASSES, seed=0, most_parameters=planned)
    assert planned == made.count_params()


@pytest.mark.parametrize("name", ["ut_tiny", "ut_act_tiny", "transformer_tiny", "ut_babi"])
def test_parameters_of_sets(name: str) -> None:
    hparams = make_hparams(name)
    for spec in (STORIES, TRANSLATION):
        counted = count_parameters(Sizes.of(hparams.model, hparams.network, spec))
        assert counted == make_model(hparams, spec, seed=0).count_params()


def test_a_model_of_unknown_sizes_is_refused() -> None:
    hparams = HParams("lstm").resolve()
    with pytest.raises(UserError, match="`model`=lstm: sizes are known of universal_transformer"):
        Sizes.of("lstm", hparams.network, TRANSLATION)
