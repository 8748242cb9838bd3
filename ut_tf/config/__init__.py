"""Typed hyperparameters: their fields, their groups, and how they are read and overridden."""

from __future__ import annotations

from ut_tf.config.hparams import HParams as HParams
from ut_tf.config.network import NetworkConfig as NetworkConfig
from ut_tf.config.training import TrainingConfig as TrainingConfig
