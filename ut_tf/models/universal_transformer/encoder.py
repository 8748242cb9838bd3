"""The Universal Transformer's encoder (arXiv 1807.03819, section 2.1) as a layer for Keras models
of your own.

How it is used::

    ids = keras.Input([None], dtype="int32")
    embedded = keras.layers.Embedding(1000, 64, mask_zero=True)(ids)
    encoder = ut_tf.layers.UniversalTransformerEncoder(hidden_size=64, halting="basic")
    states = encoder(embedded)
    label = keras.layers.Dense(2)(keras.layers.GlobalAveragePooling1D()(states))
    model = keras.Model(ids, label)
"""

import re
from typing import Any, ClassVar

import keras
import numpy as np
import tensorflow as tf

from ut_tf import registry
from ut_tf.config.families import as_config
from ut_tf.config.fields import fields_of
from ut_tf.errors import UserError, did_you_mean
from ut_tf.layers.attention_weights import length_scale, padding_bias
from ut_tf.layers.block import BlockContext
from ut_tf.layers.contracts import StackInputs
from ut_tf.layers.positions import Positions
from ut_tf.layers.symbols_first import SymbolsFirst
from ut_tf.metrics.ponder_time import PonderTime
from ut_tf.models.parts_from_config import make_part, make_position_encoding
from ut_tf.models.precision import check_precision
from ut_tf.models.universal_transformer.config import UniversalTransformerConfig
from ut_tf.models.universal_transformer.mixed import MixedStack
from ut_tf.models.universal_transformer.parts import make_stack

_KERAS_ARGUMENTS = ("name", "dtype", "trainable", "activity_regularizer")


@keras.saving.register_keras_serializable("ut_tf")
class UniversalTransformerEncoder(keras.layers.Layer):  # type: ignore[misc]
    """Repeats one block over embedded inputs, for a fixed number of steps or until every position
    halts.

    The layer adds the coordinates of positions and steps. It neither scales nor drops its inputs.

    Args:
      network: UniversalTransformerConfig; None: its defaults.
      return_ponder_times: whether to return (states, ponder_times).
      **options: fields of the configuration, such as hidden_size, num_heads, filter_size,
        num_steps, halting, act_max_steps, dropout; they replace those of `network`. And name,
        dtype, trainable of a Keras layer.

    Call arguments:
      inputs: [batch, length, hidden_size], embedded.
      mask: [batch, length], False or 0 on padding, which may stand anywhere: positions count
        symbols; None: the Keras mask of the inputs (of ``Embedding(mask_zero=True)``), or no
        padding.
      training: whether to drop, and which of the training's and the evaluation's depth holds.

    Returns:
      states [batch, length, hidden_size] in the compute dtype, and with return_ponder_times float32
      [batch, length], the number of steps that updated each position (0 on padding). Under dynamic
      halting ``losses`` holds the weighted ponder cost, which ``fit`` adds to the loss, and
      ``metrics`` the mean ponder time, which ``fit`` shows: as ponder_time, or of a layer with a
      name of its own as NAME_ponder_time.

    Raises:
      UserError: an option does not exist, the network asks for what only a whole model has, or the
        inputs are not hidden_size wide.
    """

    config_class: ClassVar[type] = UniversalTransformerConfig

    def __init__(
        self,
        network: UniversalTransformerConfig | dict[str, Any] | None = None,
        return_ponder_times: bool = False,
        **options: Any,
    ) -> None:
        known = fields_of(self.config_class)
        fields = {name: options.pop(name) for name in [*options] if name.partition(".")[0] in known}
        _refuse_unknown(options, known)
        super().__init__(autocast=False, **options)
        check_precision(self.dtype_policy)
        self.supports_masking = True
        config: Any = self.config_class() if network is None else as_config(type(self), network)
        self.network: Any = config.change(**fields).resolved()
        self.return_ponder_times = return_ponder_times
        for name in (
            "input_start_symbol",
            "target_space_embedding",
            "position_separator",
            "position_digits",
            "steps_per_position",
            "train_exit",
            "prediction_feedback",
            "eval_restarts",
        ):
            value, default = getattr(self.network, name), getattr(self.config_class, name)
            if value != default:
                raise UserError(
                    f"{name}={value} belongs to a whole model, not to an encoder layer: set it to"
                    f" {default}."
                )
        if registry.exit_rules.attribute(self.network.eval_exit, "reads_logits", False):
            raise UserError(
                f"eval_exit={self.network.eval_exit} reads the logits of a whole model, which an"
                " encoder layer does not make: use state_difference, acceleration or cosine."
            )
        self.stack = make_stack(self.network, name="stack", dtype=self.dtype_policy)
        # The mask reaches the stack as an argument, and leaves this layer with its states.
        self.stack.supports_masking = True
        self.positions = make_part(Positions, self.network, name="positions", dtype="float32")
        self.position_encoding = make_position_encoding(self.network)
        self.position_table = self.position_encoding.table
        depth_varies = self._recurrence.halting_unit.dynamic
        self._ponder_time = PonderTime(_metric_name(self.name)) if depth_varies else None

    def build(self, input_shape: Any) -> None:
        if len(input_shape) != 3:
            raise UserError(
                f"the encoder takes embedded inputs [batch, length, hidden_size], not"
                f" {tuple(input_shape)}: put a keras.layers.Embedding before it."
            )
        if input_shape[-1] != self.network.hidden_size:
            raise UserError(
                f"the encoder's inputs are {input_shape[-1]} wide, and"
                f" hidden_size={self.network.hidden_size}: make the two equal."
            )
        self.stack.build(input_shape)
        if self.position_table is not None:
            self.position_table.build(input_shape)

    def call(self, inputs: Any, mask: Any = None, training: bool = False) -> Any:
        training = bool(training)
        if mask is None:
            states, times = self._encode(inputs, tf.ones(tf.shape(inputs)[:2]), training)
        else:
            shape = mask.shape if hasattr(mask, "shape") else np.shape(mask)
            if not tf.TensorShape(inputs.shape[:2]).is_compatible_with(shape):
                raise UserError(
                    f"the mask has the shape {tuple(shape)}, and the inputs have"
                    f" {tuple(inputs.shape)}: give a mask [batch, length]."
                )
            # Positions count symbols, wherever padding stands.
            order = SymbolsFirst(mask)
            counted = tf.cast(order.packed(order.mask), tf.float32)
            results = self._encode(order.packed(inputs), counted, training)
            states, times = order.unpacked(results)
        return (states, times) if self.return_ponder_times else states

    def _encode(self, inputs: Any, counted: Any, training: bool) -> tuple[Any, Any]:
        """States and ponder times of inputs with the symbols first; counted float32 [batch,
        length], 0 on padding.
        """
        network = self.network
        length, lengths = tf.shape(inputs)[1], tf.reduce_sum(counted, 1)
        assigned = self.positions(
            batch_size=tf.shape(inputs)[0], size=length + 2, training=training
        )
        positions = self.positions.inputs(assigned, length, lengths)
        scaled = network.attention_scale == "log_length"
        context = BlockContext(
            bias=padding_bias(counted),
            keep=counted,
            rotation=self.position_encoding.rotation(
                positions, self.positions.inputs(assigned, length, lengths, backward=True)
            ),
            logit_scale=(
                length_scale(lengths[:, None, None, None], network.attention_scale_length)
                if scaled
                else None
            ),
        )
        states, details = self.stack(
            inputs,
            given=StackInputs(counted, self.position_encoding.signal(positions, counted), context),
            training=training,
        )
        halting = self._recurrence.halting_unit
        if halting.has_cost(training):
            self.ponder_loss = halting.loss_weight * details.ponder_cost()
            self.add_loss(self.ponder_loss)
        if self._ponder_time is not None:
            self._ponder_time.keep([(details.ponder_times, details.mask)])
        return states, details.ponder_times

    @property
    def metrics(self) -> list[Any]:
        """The metrics that ``fit`` shows: the ponder time, where depth is dynamic."""
        own = [] if self._ponder_time is None else [self._ponder_time.metric]
        return [*super().metrics, *own]

    @property
    def _recurrence(self) -> Any:
        return self.stack.recurrence if isinstance(self.stack, MixedStack) else self.stack

    def get_config(self) -> dict[str, Any]:
        own = {"network": self.network.to_dict(), "return_ponder_times": self.return_ponder_times}
        return {**super().get_config(), **own}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "UniversalTransformerEncoder":
        return cls(**config)


def _refuse_unknown(options: dict[str, Any], fields: Any) -> None:
    for name in options:
        if name not in _KERAS_ARGUMENTS:
            near = did_you_mean(name, {*fields, *_KERAS_ARGUMENTS}) or "."
            raise UserError(
                f"`{name}` is neither a field of UniversalTransformerConfig nor an argument of"
                f" Keras layers{near}"
            )


def _metric_name(layer_name: str) -> str:
    """The metric's name: ponder_time, with the layer's name before it if the user gave it one."""
    is_default = re.fullmatch(r"universal_transformer_encoder(_\d+)?", layer_name)
    return "ponder_time" if is_default else f"{layer_name}_ponder_time"
