"""Weights and run directories of other systems."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ut_tf.interop.hrm_trm import load_recursive, outer_steps
    from ut_tf.interop.huginn import load_huginn

__all__ = ["load_huginn", "load_recursive", "outer_steps"]

_SOURCES = {"load_huginn": "huginn", "load_recursive": "hrm_trm", "outer_steps": "hrm_trm"}


def __getattr__(name: str) -> Any:
    if name not in _SOURCES:
        raise AttributeError(f"module 'ut_tf.interop' has no attribute {name!r}")
    # Here, since commands read hyperparameters of other systems before TensorFlow is loaded.
    from ut_tf.loading import load_module

    return getattr(load_module(f"ut_tf.interop.{_SOURCES[name]}"), name)
