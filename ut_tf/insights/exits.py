"""The steps at which exit rules would stop the positions of an example."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from ut_tf import registry
from ut_tf.errors import UserError
from ut_tf.evaluation.exit_thresholds import possible_rules
from ut_tf.insights.observed import PartSteps
from ut_tf.models.universal_transformer.exit_rules import ExitRule
from ut_tf.run import Run


def make_rules(run: Run) -> dict[str, ExitRule]:
    """The exit rules that a run's model can take, by name, at their default thresholds; the run's
    own rule at the run's. None of a model without exit rules.
    """
    rules: dict[str, ExitRule] = {}
    if not hasattr(run.hparams.network, "eval_exit"):
        return rules
    for name in possible_rules(run):
        try:
            used = run.in_use(f"eval_exit={name}")
        except UserError:
            continue  # The configuration says why its model cannot take the rule.
        network = used.hparams.network
        own = run.hparams.network.eval_exit == name
        threshold = network.eval_exit_threshold if own else None
        rules[name] = registry.exit_rules.get(name)(threshold)
    return rules


def exit_steps(
    rules: Mapping[str, ExitRule], part: PartSteps, step_logits: Sequence[Any]
) -> dict[str, list[int | None]]:
    """The step, from 1, after which each rule would stop each position of a part; None: the
    position halts earlier, or takes all steps.

    The states are those of a pass without the rule: positions that a rule stops do not change what
    others read.

    Args:
      rules: by name.
      part: with the views of its steps.
      step_logits: of each step, [length, vocab_size]; empty where the positions are not answered
        from one by one. Rules on logits are then left out.
    """
    return {
        name: _steps(rule, part, step_logits)
        for name, rule in rules.items()
        if part.views
        and (step_logits or not rule.reads_logits)
        and (part.q_halt is not None or not rule.reads_q_values)
    }


def _steps(rule: ExitRule, part: PartSteps, step_logits: Sequence[Any]) -> list[int | None]:
    vocab_size = step_logits[0].shape[-1] if rule.reads_logits else None
    carried = rule.start(part.views[0].previous_state, vocab_size)
    first = np.full(len(part.ponder_times), np.inf)
    for number, view in enumerate(part.views):
        logits: Callable[[], Any] = _no_logits
        if rule.reads_logits:
            logits = functools.partial(tf.expand_dims, step_logits[number], 0)
        elif rule.reads_q_values:
            logits = functools.partial(tf.identity, view.q_values)
        exits, carried = rule.check(number, view.state, carried, logits)
        first = np.where(exits.numpy()[0] & np.isinf(first), number + 1, first)
    return [
        int(step) if step <= ponder_time else None
        for step, ponder_time in zip(first, part.ponder_times, strict=True)
    ]


def _no_logits() -> Any:
    raise UserError("an exit rule asked for logits, but says reads_logits=False: set it to True.")
