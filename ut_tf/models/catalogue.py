"""The models by name, each with its class, its configuration and a description. A model is called
as ``model(config, spec)``.
"""

from ut_tf.registry import Entry

MODELS = {
    "universal_transformer": Entry(
        "ut_tf.models.universal_transformer.model:UniversalTransformer",
        "Universal Transformer, fixed depth or dynamic halting (arXiv 1807.03819)",
        config="ut_tf.models.universal_transformer.config:UniversalTransformerConfig",
    ),
    "conditional_universal_transformer": Entry(
        "ut_tf.models.universal_transformer.conditional:ConditionalUniversalTransformer",
        "Universal Transformer with a transition of its own for each step",
        config="ut_tf.models.universal_transformer.config:ConditionalUniversalTransformerConfig",
    ),
    "transformer": Entry(
        "ut_tf.models.transformer.model:Transformer",
        "Transformer, layers with weights of their own (arXiv 1706.03762)",
        config="ut_tf.models.transformer.config:TransformerConfig",
    ),
    "mem_transformer": Entry(
        "ut_tf.models.memory_transformer.model:MemTransformer",
        "Transformer with learned memory in front of the sequence (arXiv 2006.11527)",
        config="ut_tf.models.memory_transformer.config:MemoryTransformerConfig",
    ),
    "mem_bottleneck_transformer": Entry(
        "ut_tf.models.memory_transformer.model:MemBottleneckTransformer",
        "Transformer whose symbols see each other through memory only, at linear cost (arXiv"
        " 2006.11527)",
        config="ut_tf.models.memory_transformer.config:MemoryTransformerConfig",
    ),
    "memn2n": Entry(
        "ut_tf.models.memn2n.model:MemN2N",
        "end-to-end memory network: hops over facts (arXiv 1503.08895)",
        config="ut_tf.models.memn2n.config:MemN2NConfig",
    ),
    "lstm": Entry(
        "ut_tf.models.lstm.model:LSTMModel",
        "LSTMs, with Luong's or Bahdanau's attention or none (arXiv 1409.3215)",
        config="ut_tf.models.lstm.config:LSTMConfig",
    ),
    "convs2s": Entry(
        "ut_tf.models.convolutional.convs2s:ConvS2S",
        "gated convolutions with attention at every layer (arXiv 1705.03122)",
        config="ut_tf.models.convolutional.config:ConvS2SConfig",
    ),
    "neural_gpu": Entry(
        "ut_tf.models.neural_gpu.model:NeuralGPU",
        "gated convolutions over an image, repeated as often as the input is long (arXiv"
        " 1511.08228)",
        config="ut_tf.models.neural_gpu.config:NeuralGPUConfig",
    ),
    "extended_neural_gpu": Entry(
        "ut_tf.models.neural_gpu.extended:ExtendedNeuralGPU",
        "a Neural GPU with a decoder and an output tape (arXiv 1610.08613)",
        config="ut_tf.models.neural_gpu.config:NeuralGPUConfig",
    ),
    "bytenet": Entry(
        "ut_tf.models.convolutional.bytenet:ByteNet",
        "dilated convolutions over a representation as long as the source (arXiv 1610.10099)",
        config="ut_tf.models.convolutional.config:ByteNetConfig",
    ),
}
