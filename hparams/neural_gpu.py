"""Named sets of the Neural GPUs: the papers' sizes, and recipes for a CPU.

How it is used::

    ut-trainer --problem=algorithmic_copy_decimal40 --hparams_set=neural_gpu_tiny

How it works: the papers' training has a curriculum over lengths, noise on the gradient, six sets of
parameters that are pulled together, and batches of 32 examples. max_length is that of the
algorithmic problems with the end symbol; raise it for longer examples.
"""

from __future__ import annotations

from ut_tf.config.hparams import HParams


def neural_gpu() -> HParams:
    """``ut-trainer --problem=algorithmic_addition_decimal40 --hparams_set=neural_gpu``

    The paper's size: 24 maps, 4 columns, two CGRUs in a step, kernels of 3 x 3, six relaxed sets.
    """
    return HParams(model="neural_gpu").change(
        **_IMAGE,
        **_TRAINING,
        relaxed_sets=6,
        gradient_noise=0.001,
        dropout=0.09,
        train_steps=40_000,
    )


def neural_gpu_tiny() -> HParams:
    """``ut-trainer --problem=algorithmic_copy_decimal40 --hparams_set=neural_gpu_tiny``

    For copy and reverse on a CPU: 24 maps, 2 columns, one set of parameters.
    """
    return HParams(model="neural_gpu").change(
        **{**_IMAGE, "image_width": 2},
        **_TRAINING,
        dropout=0.09,
        train_steps=2000,
        eval_frequency=250,
    )


def extended_neural_gpu() -> HParams:
    """``ut-trainer --problem=translate_ende_wmt14 --hparams_set=extended_neural_gpu``

    The paper's size for translation: 512 maps, 4 columns, two CGRUs in a step, no curriculum.
    """
    return HParams(model="extended_neural_gpu").change(
        hidden_size=512,
        num_heads=1,
        num_layers=2,
        source_stretch=1.2,
        shared_embedding=False,
        dropout=0.15,
        clip_norm=1.0,
    )


def extended_neural_gpu_tiny() -> HParams:
    """``ut-trainer --problem=algorithmic_copy_decimal40 --hparams_set=extended_neural_gpu_tiny``

    For copy and reverse on a CPU: neural_gpu_tiny with a decoder.
    """
    return HParams(model="extended_neural_gpu").change(
        **{**_IMAGE, "image_width": 2},
        **_TRAINING,
        dropout=0.09,
        train_steps=2000,
        eval_frequency=250,
    )


_IMAGE = {
    "hidden_size": 24,
    "num_heads": 1,
    "num_layers": 2,
    "source_stretch": 1.0,
    "shared_embedding": False,
}
_TRAINING = {
    "learning_rate": 0.005,
    "schedule": "cosine",
    "warmup_steps": 100,
    "adam_beta2": 0.999,
    "adam_epsilon": 1e-5,
    "clip_norm": 1.0,
    "label_smoothing": 0.0,
    "batch_size": 32,
    "batch_unit": "examples",
    "max_length": 41,
    "min_length_bucket": 6,
    "length_bucket_step": 1.2,
    "curriculum": "length",
    "curriculum_start": 6,
}
