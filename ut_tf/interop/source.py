"""A checkpoint of another system that has been read, as what makes a model of ours of it."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ut_tf.models.universal_transformer.config import UniversalTransformerConfig
from ut_tf.models.universal_transformer.model import UniversalTransformer
from ut_tf.problem_spec import ProblemSpec


class Source(NamedTuple):
    """A checkpoint that has been read.

    Fields:
      kind: "trm", "hrm" or "huginn".
      network: configuration of the model.
      spec: of the problem.
      training: fields of the training that the checkpoint's configuration names.
      length: positions of every example; None: any.
      numbers: how many its weights are at most.
      assign: gives a model of `network` and `spec` the weights.
    """

    kind: str
    network: UniversalTransformerConfig
    spec: ProblemSpec
    training: Mapping[str, Any]
    length: int | None
    numbers: int
    assign: Callable[[Any], None]

    def model(self) -> UniversalTransformer:
        """Returns the model with the checkpoint's weights."""
        model = UniversalTransformer(self.network, self.spec)
        self.assign(model)
        return model
