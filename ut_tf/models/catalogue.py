"""The models: a name, where it is found, and what it is. A model is called as ``model(network, spec)``."""

from __future__ import annotations

from ut_tf.registry import Entry

MODELS = {
    "universal_transformer": Entry(
        "ut_tf.models.universal_transformer:UniversalTransformer",
        "Universal Transformer, fixed depth or dynamic halting (arXiv 1807.03819)",
    ),
    "transformer": Entry("ut_tf.models.transformer:Transformer", "Transformer, layers with weights of their own (arXiv 1706.03762)"),
}
