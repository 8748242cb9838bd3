"""What breaks the contract of a part of one's own is told with the part and what was expected."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from ut_tf import registry
from ut_tf.data.example_table import ExampleTable
from ut_tf.data.pipeline import eval_batches
from ut_tf.data.problem import EvaluationSet, Problem, ProblemSpec
from ut_tf.errors import UserError
from ut_tf.evaluation.methods.batches import BatchMethod
from ut_tf.metrics.sums import Metric, ratio
from ut_tf.models.part_contracts import checked_part
from ut_tf.models.universal_transformer.cells import BasicCell
from ut_tf.models.universal_transformer.config import UniversalTransformerConfig
from ut_tf.models.universal_transformer.exit_rules import ExitRule
from ut_tf.models.universal_transformer.halting.adaptive_computation_time import Basic
from ut_tf.models.universal_transformer.injection import InputInjection
from ut_tf.models.universal_transformer.model import UniversalTransformer

SET, SPEC = EvaluationSet("", "test", method="greedy"), ProblemSpec("tokens", "aligned", 5, 5)
CELL, RULE = (registry.cells, "recurrence", BasicCell), (registry.exit_rules, "eval_exit", ExitRule)
FORM = (registry.halting_forms, "halting", Basic)
IN = (registry.input_injections, "input_injection")
CALL, STATE = "call(block_output, state, memory, inputs)", "expected (state [?, ?, 8], memory)."
CHECK, EXIT = "check(step, states, carried, logits)", "expected ([?], what it carries)."
FLAT = "([?, 1, 8], [?, ?, 8]); "
HEAT = "'heat'; no hyperparameter has that name: declare it in `options`"


class Needy:
    def __init__(self, heat: float) -> None:
        self.heat = heat


@pytest.mark.parametrize(
    ("place", "method", "own", "told"),
    [
        (CELL, "call", lambda *a: a[1], f": `call` returned [?, ?, 8]; {STATE}"),
        (CELL, "call", lambda *a: (tf.reduce_mean(a[1], 1, True), a[3]), FLAT + STATE),
        (CELL, "call", lambda s, output: (s, output), f" has call(output); expected {CALL}."),
        (RULE, "check", lambda *a: a[2][..., 0] > 0, f": `check` returned [?]; {EXIT}"),
        (RULE, "check", lambda *a: (a[2][..., :1] > 0, a[3]), f"returned ([?, 1], ()); {EXIT}"),
        (RULE, "check", lambda s, n: (s, n), f" has check(n); expected {CHECK}."),
        (FORM, "probabilities", lambda *a: a[2][..., :1], "[1, ?, 1]; expected [1, ?]."),
        (FORM, "__init__", Needy.__init__, HEAT),
        ((*IN, InputInjection), "injected", lambda *a: tf.concat(a[1:3], -1), "16]; expected [?"),
        ((*IN, BasicCell), "x", 1, " lacks the method injected(state, inputs, weights)."),
    ],
)
def test_a_part(place: Any, method: str, own: Any, told: str, monkeypatch: Any) -> None:
    kind, field, base = place
    monkeypatch.setattr(kind, "_registered", {})
    start = {"start": lambda *_: ()} if base is ExitRule else {}
    kind.register("bad", type("Bad", (base,), {method: own, "__module__": __name__, **start}))
    sizes: Any = {"hidden_size": 8, "filter_size": 8, "num_heads": 1, "num_steps": 2, field: "bad"}
    with pytest.raises(UserError) as raised:
        model = UniversalTransformer(UniversalTransformerConfig(**sizes), SPEC)
        graph = tf.function(lambda ids: model({"inputs": ids}, training=False), autograph=False)
        graph.get_concrete_function(tf.TensorSpec([None, None], tf.int32))
    assert str(raised.value).startswith(f"{kind.kind} 'bad' ({__file__}:Bad)")
    assert told in str(raised.value)


@pytest.mark.parametrize(
    ("kind", "method", "arguments"),
    [
        ("recurrence", "call", "block_output, state, memory, inputs, step"),
        ("recurrence", "call", "*given, **named"),
        ("exit rule", "check", "step, states, carried, logits"),
        ("transition", "call", "x, keep, training, output_scale"),
        ("transition", "call", "x, **options"),
    ],
)
def test_a_part_that_keeps_its_contract(kind: str, method: str, arguments: str) -> None:
    own = eval(f"lambda self, {arguments}: None")
    part = type("Good", (), {method: own, "__module__": __name__})()
    again = copy.copy(checked_part("own", kind, checked_part("own", kind, part)))
    assert vars(again) == {} and getattr(type(again), method).__wrapped__ is own


def test_a_sum_and_a_feature_that_are_missing() -> None:
    table = ExampleTable(np.ones(2, np.int32), lambda numbers: {"inputs": numbers[:, None]})
    members: Any = {"metrics": {"error": Metric(("down", "pairs"), ratio)}, "spec": None}
    members |= {"prepare": None, "judge": None, "examples": lambda *_, **__: table}
    method = type("Own", (BatchMethod,), {**members, "__init__": lambda _: None})()
    judged = {"downs": np.ones(2), "pairs": 1.0}
    with pytest.raises(
        UserError, match=r":Own\).* {'downs': \[2\], 'pairs': \[\]}; `metrics` need"
    ):
        method.add(method.new_sums(SET), judged, {"weight": tf.ones(2)}, SET)
    problem = type("Own", (Problem,), members)()
    with pytest.raises(UserError, match=r":Own\).* features inputs, weight; expected targets amon"):
        eval_batches(problem, SET, Path(), batch_examples=2)
