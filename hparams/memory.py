"""Sets of the models with memory: Memory Transformers and the end-to-end memory network.

How it is used::

    ut-trainer --problem=babi_sim_task1 --hparams_set=memn2n_tiny

How it works: the Memory Transformers (arXiv 2006.11527) have the Transformer's sizes and recipes,
and ten memory vectors. The memory network has those of its paper (arXiv 1503.08895): three hops
with adjacent tying, the last 50 facts, embeddings drawn with standard deviation 0.1, batches of 32,
gradients of a norm up to 40; d is 20 for a single task and 50 for all of them. It is trained by
Adam with a cosine instead of stochastic gradient descent whose rate is halved every 25 epochs.
"""

from __future__ import annotations

import dataclasses

from ut_tf.config.hparams import HParams
from ut_tf.hparams.transformer import transformer_base
from ut_tf.hparams.universal_transformer import ut_algorithmic_reverse


def mem_transformer_base() -> HParams:
    """``ut-trainer --problem=translate_ende_wmt14 --hparams_set=mem_transformer_base``

    transformer_base with 10 memory vectors in front of the inputs.
    """
    return dataclasses.replace(transformer_base(), model="mem_transformer").change(memory_size=10)


def mem_transformer_tiny() -> HParams:
    """``ut-trainer --problem=algorithmic_reverse_decimal40 --hparams_set=mem_transformer_tiny``

    128 / 512 / 4, 2 layers, 10 memory vectors, with the recipe of ut_algorithmic_reverse.
    """
    return dataclasses.replace(ut_algorithmic_reverse(), model="mem_transformer").change(
        num_layers=2, memory_size=10
    )


def mem_bottleneck_transformer_base() -> HParams:
    """``ut-trainer --problem=translate_ende_wmt14 --hparams_set=mem_bottleneck_transformer_base``

    transformer_base whose encoder's symbols see each other through 10 memory vectors.
    """
    return dataclasses.replace(mem_transformer_base(), model="mem_bottleneck_transformer")


def mem_bottleneck_transformer_tiny() -> HParams:
    """``ut-trainer --problem=algorithmic_reverse_decimal40
    --hparams_set=mem_bottleneck_transformer_tiny``

    mem_transformer_tiny whose encoder's symbols see each other through the memory only.
    """
    return dataclasses.replace(mem_transformer_tiny(), model="mem_bottleneck_transformer")


def memn2n() -> HParams:
    """``ut-trainer --problem=babi_sim_all_tasks --hparams_set=memn2n``

    d 50, 3 hops, 50 facts, adjacent tying: the paper's for all bAbI tasks jointly.
    """
    return HParams(model="memn2n").change(
        hidden_size=50,
        num_heads=1,
        num_steps=3,
        memory_size=50,
        embedding_stddev=0.1,
        learning_rate=0.005,
        schedule="cosine",
        warmup_steps=100,
        adam_beta2=0.999,
        adam_epsilon=1e-8,
        clip_norm=40.0,
        batch_size=32,
        batch_unit="examples",
        length_bucket_step=1.5,
        label_smoothing=0.0,
        train_steps=30_000,
        eval_frequency=1000,
    )


def memn2n_tiny() -> HParams:
    """``ut-trainer --problem=babi_sim_task1 --hparams_set=memn2n_tiny``

    memn2n with d 20: the paper's for single tasks.
    """
    return memn2n().change(hidden_size=20, train_steps=3000, eval_frequency=300)
