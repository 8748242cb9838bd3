"""The exit rules that sweeps compare, and at which thresholds.

::

    for rule, threshold in rules_at_thresholds(run, ("kl",)):
        run.in_use(use_of_rule(rule, threshold))
"""

from collections.abc import Sequence

from ut_tf import registry
from ut_tf.run import Run

NO_RULE = "none"
_RELATIVE, _NATS, _STEPS = (0.01, 0.03, 0.1, 0.3), (1e-4, 1e-3, 1e-2, 1e-1), (2.0, 3.0, 5.0)
THRESHOLDS = {
    "state_difference": _RELATIVE,
    "acceleration": _RELATIVE,
    "entropy": _NATS,
    "confidence": _RELATIVE,
    "kl": _NATS,
    "argmax_stable": _STEPS,
}


def possible_rules(run: Run) -> list[str]:
    """The names of the rules that a run's model can take, those on states first."""
    reads_logits = {
        name: bool(registry.exit_rules.attribute(name, "reads_logits", False))
        for name in registry.exit_rules.names()
        if name != NO_RULE
    }
    has_logits = run.spec is not None and not run.spec.has_one_answer
    has_logits = has_logits and not run.hparams.network.mix_layers_after
    has_q_values = getattr(run.hparams.network, "q_head", False)
    names = [
        name
        for name, reads in reads_logits.items()
        if (has_logits or not reads)
        and (has_q_values or not registry.exit_rules.attribute(name, "reads_q_values", False))
    ]
    return sorted(names, key=lambda name: reads_logits[name])


def rules_at_thresholds(run: Run, rules: Sequence[str]) -> list[tuple[str, float | None]]:
    """The rules, by default all that a run's model can take, at each of their thresholds; None: at
    the rule's own.

    Raises:
      UserError: the model is no Universal Transformer, and so has no rules.
    """
    run.in_use(use_of_rule(NO_RULE, None))
    return [
        (rule, threshold)
        for rule in rules or possible_rules(run)
        for threshold in _thresholds(rule)
    ]


def _thresholds(rule: str) -> tuple[float | None, ...]:
    own: tuple[float | None, ...] = registry.exit_rules.attribute(rule, "sweep_thresholds", (None,))
    return THRESHOLDS.get(rule, own)


def use_of_rule(rule: str, threshold: float | None) -> str:
    """The rule at a threshold as ``Run.in_use`` reads it."""
    assignment = "" if threshold is None else f",eval_exit_threshold={threshold:g}"
    return f"eval_exit={rule}{assignment}"
