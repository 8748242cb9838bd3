"""The models: a name, where it is found, and what it is. A model is called as ``model(network,
spec)``.
"""

from __future__ import annotations

from ut_tf.registry import Entry

MODELS = {
    "universal_transformer": Entry(
        "ut_tf.models.universal_transformer.model:UniversalTransformer",
        "Universal Transformer, fixed depth or dynamic halting (arXiv 1807.03819)",
    ),
    "conditional_universal_transformer": Entry(
        "ut_tf.models.universal_transformer.conditional:ConditionalUniversalTransformer",
        "Universal Transformer with a transition of its own for each step",
    ),
    "transformer": Entry(
        "ut_tf.models.transformer.model:Transformer",
        "Transformer, layers with weights of their own (arXiv 1706.03762)",
    ),
    "mem_transformer": Entry(
        "ut_tf.models.memory_transformer.model:MemTransformer",
        "Transformer with learned memory in front of the sequence (arXiv 2006.11527)",
    ),
    "mem_bottleneck_transformer": Entry(
        "ut_tf.models.memory_transformer.model:MemBottleneckTransformer",
        "Transformer whose symbols see each other through memory only, at linear cost (arXiv"
        " 2006.11527)",
    ),
    "memn2n": Entry(
        "ut_tf.models.memn2n.model:MemN2N",
        "end-to-end memory network: hops over facts (arXiv 1503.08895)",
    ),
    "lstm": Entry(
        "ut_tf.models.lstm.model:LSTMModel",
        "LSTMs, with Luong's or Bahdanau's attention or none (arXiv 1409.3215)",
    ),
    "convs2s": Entry(
        "ut_tf.models.convolutional.convs2s:ConvS2S",
        "gated convolutions with attention at every layer (arXiv 1705.03122)",
    ),
    "neural_gpu": Entry(
        "ut_tf.models.neural_gpu.model:NeuralGPU",
        "gated convolutions over an image, repeated as often as the input is long (arXiv"
        " 1511.08228)",
    ),
    "extended_neural_gpu": Entry(
        "ut_tf.models.neural_gpu.extended:ExtendedNeuralGPU",
        "a Neural GPU with a decoder and an output tape (arXiv 1610.08613)",
    ),
    "bytenet": Entry(
        "ut_tf.models.convolutional.bytenet:ByteNet",
        "dilated convolutions over a representation as long as the source (arXiv 1610.10099)",
    ),
}
