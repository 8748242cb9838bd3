"""Makes the stacks of a Memory Transformer from its configuration."""

from typing import Any

from ut_tf.models.memory_transformer.memory import BottleneckStack, MemoryStack, MemoryVectors
from ut_tf.models.parts_from_config import make_block, make_final_norm, make_layer_stack, make_part


def make_memory_stack(
    config: Any,
    causal: bool = False,
    returns_memory: bool = False,
    name: str = "stack",
    dtype: Any = None,
) -> MemoryStack:
    """A ``MemoryStack`` of num_layers blocks."""
    memory = make_part(MemoryVectors, config, name="memory", dtype=dtype)
    stack = make_layer_stack(config, config.num_layers, causal, name="stack", dtype=dtype)
    return MemoryStack(memory, stack, causal, returns_memory, name=name, dtype=dtype)


def make_bottleneck_stack(
    config: Any, returns_memory: bool = False, name: str = "stack", dtype: Any = None
) -> BottleneckStack:
    """A ``BottleneckStack`` of num_layers layers."""
    options = {"with_memory": True, "with_self_attention": False, "dtype": dtype}
    memory = make_part(MemoryVectors, config, name="memory", dtype=dtype)
    # Memory vectors have no neighbours.
    pointwise = config.change(transition="fc")
    writers, readers = [], []
    for number in range(config.num_layers):
        writers.append(make_block(pointwise, name=f"write_{number}", **options))
        readers.append(make_block(config, name=f"read_{number}", **options))
    final_norm = make_final_norm(config, dtype)
    return BottleneckStack(
        memory, writers, readers, final_norm, returns_memory, name=name, dtype=dtype
    )
