"""What figures call metrics and runs: words with units, and names without what all share.

::

    in_words("eval/error/10")     # "validation error (%), 10"
    short_names(["UT, ut_lte", "UT, ut_lte, dropout=0.1"])    # {...: "ut_lte", ...: "dropout=0.1"}
"""

from collections.abc import Iterable

_SHARE = "accuracy (share of {})"
_WORDS = {
    "accuracy": "accuracy (share right)",
    "bleu": "BLEU",
    "char_acc": _SHARE.format("symbols"),
    "chrf": "chrF",
    "compute_share": "share of the full depth that is computed",
    "error": "error (%)",
    "f1": "F1",
    "failed_tasks": "failed tasks",
    "final": "steps until the answer is final",
    "gradient_norm": "norm of the gradient",
    "learning_rate": "learning rate",
    "loss": "loss (nats)",
    "mean_error": "mean error (%)",
    "perplexity": "perplexity",
    "ponder_time": "ponder time (steps)",
    "ponder_time_std": "deviation of the ponder time (steps)",
    "rouge1": "ROUGE-1",
    "rouge2": "ROUGE-2",
    "rougeL": "ROUGE-L",
    "seq_acc": _SHARE.format("whole sequences"),
    "seq_accuracy": _SHARE.format("whole examples"),
    "steps": "steps of a position",
    "target/accuracy": _SHARE.format("last words"),
    "target/loss": "loss of the last word (nats)",
    "target/perplexity": "perplexity of the last word",
    "valid": "valid answers (share)",
}
_LOGS = {"train": "training", "eval": "validation"}


def in_words(name: str) -> str:
    """A metric in words, with its unit; what its name says before and after stands behind.

    Args:
      name: as in evaluations and logs, such as "length_40/seq_acc" or "train/loss".
    """
    first, *others = parts = name.split("/")
    if others and first in _LOGS:
        return f"{_LOGS[first]} {in_words('/'.join(others))}"
    for size in (2, 1):
        for start in range(len(parts) - size + 1):
            metric = "/".join(parts[start : start + size])
            if metric in _WORDS:
                around = parts[:start] + parts[start + size :]
                return ", ".join([_WORDS[metric], *(part.replace("_", " ") for part in around)])
    return ", ".join(part.replace("_", " ") for part in parts)


def short_names(names: Iterable[str]) -> dict[str, str]:
    """Each name's parts (split at ", ") that not all share; the last of one that has no others."""
    parts = {name: name.split(", ") for name in names}
    shared = set.intersection(*map(set, parts.values())) if parts else set()
    return {
        name: ", ".join(part for part in own if part not in shared) or own[-1]
        for name, own in parts.items()
    }
