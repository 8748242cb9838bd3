"""TensorBoard's texts and figures of a training, besides scalars and histograms.

::

    ut_tf.train(run, tensorboard=["examples", "figures", "graph"])

"examples": texts that the model writes for validation examples, at each validation; "figures":
ponder times over the steps as an image, at each validation; "graph": the graph of one update, by
names of layers, after the first. The hyperparameters are always written, for the HParams page.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

from ut_tf.config.fields import without_effect
from ut_tf.config.part_options import values_of
from ut_tf.data.problem import Problem
from ut_tf.errors import UserError, did_you_mean
from ut_tf.run import Run

View = Literal["examples", "figures", "graph"]
_EXAMPLES = 4


def check_views(views: Iterable[str]) -> None:
    """Raises UserError where a name is no view, or a view needs a package that is missing."""
    known = get_args(View)
    for view in views:
        if view not in known:
            raise UserError(
                f"`tensorboard`={view}: expected one of {', '.join(known)}"
                f"{did_you_mean(view, known).rstrip('?')}."
            )
        if view == "figures":
            from ut_tf.figures.style import check_installed

            check_installed()


def trial_name(run: Run) -> str:
    """The run's folder, as it is called from the working folder if it lies there."""
    try:
        return str(run.output_dir.relative_to(Path.cwd()))
    except (ValueError, FileNotFoundError):
        return str(run.output_dir)


def flat_hparams(run: Run) -> dict[str, bool | int | float | str]:
    """Problem, set, model, seed and every hyperparameter that is read, by name; other values as
    text.
    """
    names = {"problem": run.problem, "hparams_set": run.hparams_set, "seed": run.seed}
    read = {
        name: value
        for section in (run.hparams.network, run.hparams.training)
        for name, value in values_of(section).items()
        if without_effect(section, name) is None
    }
    flat = {**names, "model": run.hparams.model, **read}
    return {
        name: value if isinstance(value, bool | int | float | str) else str(value)
        for name, value in flat.items()
    }


class WrittenExamples:
    """Texts that a model writes for the first examples of the first validation set.

    A decoder writes greedily, as long as the target; a language model writes each symbol given the
    right ones before it.

    Args:
      model: with its weights of the moment.
      problem: prepared.
      run: of the model.

    Raises:
      UserError: the problem has no text form.
    """

    def __init__(self, model: Any, problem: Problem, run: Run) -> None:
        import tensorflow as tf

        from ut_tf.data.pipeline import eval_batches

        self._model = model
        self._codec = run.text_codec()
        (first, *_) = problem.validation_sets()
        batches = eval_batches(problem, first, run.data_dir, batch_examples=_EXAMPLES)
        (self._features,) = batches.take(1)
        self._write = tf.function(self._written, autograph=False)

    def markdown(self) -> str:
        """Returns a table with a row for each example: its input, its target and the model's
        output.
        """
        columns = [text.numpy() for text in self._write()]
        rows = zip(*columns, strict=True)
        lines = ["| input | target | output |", "|---|---|---|"]
        return "\n".join([*lines, *(_row(row) for row in rows)])

    def _written(self) -> tuple[Any, Any, Any]:
        """Inputs, targets and outputs as strings [examples]."""
        import tensorflow as tf

        from ut_tf.inference.asked import Asked
        from ut_tf.search.strategies import greedy_decode

        model, features, spec = self._model, self._features, self._model.spec
        if spec.targets == "tokens" and spec.inputs != "none":
            length = tf.shape(features["targets"])[1]
            outputs = greedy_decode(model, features, max_length=length)
        else:
            logits = model(features, training=False)
            outputs = tf.argmax(logits, -1, output_type=tf.int32)
            if not spec.has_one_answer:
                outputs = tf.where(features["targets"] != 0, outputs, 0)
        written = [features["targets"], outputs]
        if spec.targets == "aligned":
            written = [*map(Asked(self._codec, features["inputs"]).answer, written)]
        targets, outputs = map(self._codec.decode, written)
        if spec.inputs == "none":
            return tf.fill(tf.shape(targets), ""), targets, outputs
        inputs = tf.strings.reduce_join(self._codec.tokens(features), -1, separator=" ")
        return tf.strings.strip(inputs), targets, outputs


def _row(texts: Sequence[bytes]) -> str:
    cells = (
        text.decode("utf-8", "replace").replace("|", "\\|").replace("\n", " ") for text in texts
    )
    return f"| {' | '.join(cells)} |"
