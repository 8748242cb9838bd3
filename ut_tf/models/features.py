"""The inputs of a model: ids are checked, and the symbols of each example moved to its front.

Padding may stand anywhere in what a user gives. A model computes with padding behind the symbols
(``layers/symbols_first.py``), and gives its results where the symbols stood.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from ut_tf.errors import UserError
from ut_tf.ids import checked_ids, nan_where_unknown
from ut_tf.layers.symbols_first import SymbolsFirst, packed_ids
from ut_tf.models.interfaces import CallOptions, ModelDetails
from ut_tf.problem_spec import ProblemSpec


class Orders(NamedTuple):
    """The original places of the symbols of inputs and targets; None where a model reads none.

    ``options`` and ``details`` go with ``CallOptions`` and ``ModelDetails`` of the packed features.
    """

    inputs: SymbolsFirst | None
    targets: SymbolsFirst | None

    def options(self, options: CallOptions) -> tuple[CallOptions, CallOptions]:
        """The options for the encoder and for the decoder: an observer sees positions as given."""
        inputs, targets = self
        observers = (
            inputs.observer(options.observer, None) if inputs else None,
            targets.observer(options.observer, inputs) if targets else None,
        )
        encoder, decoder = (options._replace(observer=observer) for observer in observers)
        if inputs and options.exit_steps is not None:
            encoder = encoder._replace(exit_steps=inputs.packed(options.exit_steps))
        return encoder, decoder

    def logits(self, logits: Any, targets: str) -> Any:
        """The logits of targets of this kind (of ``ProblemSpec``), of positions as given."""
        order = {"tokens": self.targets, "aligned": self.inputs}.get(targets)
        return logits if order is None else order.unpacked([logits])[0]

    def details(
        self, details: ModelDetails, keeps_positions: bool, queries_are_positions: bool
    ) -> ModelDetails:
        """The details, of positions as given.

        Args:
          details: of the packed features.
          keeps_positions: whether the encoder's positions are those of its inputs.
          queries_are_positions: whether its attention weights have a row for each of them.
        """
        encoder, decoder = details
        inputs = self.inputs if keeps_positions else None
        if encoder is not None and inputs is not None:
            encoder = inputs.details(encoder, None, queries_are_positions)
        if decoder is not None and self.targets is not None:
            decoder = self.targets.details(decoder, inputs)
        return ModelDetails(encoder, decoder)


def checked_features(features: Mapping[str, Any], spec: ProblemSpec) -> dict[str, Any]:
    """The features, with the ids that a model of `spec` reads as int32.

    Raises:
      UserError: they are no ids of its vocabularies (see ``ids.checked_ids``).
    """
    checked = dict(features)
    for name, size, rank in _read_by_models(spec):
        if name in checked:
            checked[name] = checked_ids(checked[name], size, name, rank)
    read = [name for name, *_ in _read_by_models(spec) if name in checked]
    examples = {name: checked[name].shape[0] for name in read}
    if len({*examples.values()} - {None}) > 1:
        raise UserError(
            f"a batch has one target for each input, and this one has {examples}: give as many of"
            " each."
        )
    return checked


def packed_features(
    features: Mapping[str, Any], spec: ProblemSpec
) -> tuple[dict[str, Any], Orders]:
    """The features of ``checked_features`` with the symbols first, and where they stood."""
    packed = dict(features)
    orders: dict[str, SymbolsFirst] = {}
    for name, *_ in _read_by_models(spec):
        if name in features:
            packed[name], orders[name] = packed_ids(features[name])
    return packed, Orders(orders.get("inputs"), orders.get("targets"))


def nan_where_unread(logits: Any, features: Mapping[str, Any], spec: ProblemSpec) -> Any:
    """Returns the logits, NaN in examples with an id outside the vocabulary (under XLA, which
    cannot raise an error).
    """
    for name, size, _ in _read_by_models(spec):
        if name in features:
            logits = nan_where_unknown(logits, features[name], size)
    return logits


def _read_by_models(spec: ProblemSpec) -> list[tuple[str, int, int]]:
    """Name, vocabulary and dimensions of a feature that a call or a search reads."""
    read = []
    if spec.inputs != "none":
        read.append(("inputs", spec.input_vocab_size, 3 if spec.inputs == "facts" else 2))
    if spec.targets == "tokens":
        read += [(name, spec.target_vocab_size, 2) for name in ("targets", "prefix")]
    return read
