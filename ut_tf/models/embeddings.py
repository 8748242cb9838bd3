"""The embeddings of a model's inputs and targets, from its configuration.

Inputs and targets share one table where ``shared_embedding`` says so and their vocabularies are the
same.
"""

from typing import Any

from ut_tf.layers.embedding import TokenEmbedding
from ut_tf.layers.fact_embedding import FactEmbedding
from ut_tf.layers.target_start import TargetStart
from ut_tf.problem_spec import ProblemSpec


def table_options(config: Any) -> dict[str, Any]:
    """The arguments of size and initial values that all embeddings of a model share."""
    return {
        "hidden_size": config.hidden_size,
        "scale": config.embedding_scale,
        "stddev": config.embedding_stddev,
    }


def make_input_embedding(config: Any, spec: ProblemSpec, policy: str) -> Any:
    """The embedding of the inputs; None for a language model."""
    options = {
        **table_options(config),
        "word_dropout": config.word_dropout,
        "dtype": policy,
        "name": "input_embedding",
    }
    if spec.inputs == "facts":
        return FactEmbedding(
            spec.input_vocab_size,
            spec.max_words,
            mask_mean=config.word_mask_mean,
            mask_stddev=config.word_mask_stddev,
            **options,
        )
    if spec.inputs == "tokens":
        if _shares(config, spec) and spec.targets == "tokens":
            options["name"] = "shared_embedding"
        return TokenEmbedding(spec.input_vocab_size, **options)
    return None


def make_target_embedding(
    config: Any, spec: ProblemSpec, input_embedding: Any, policy: str
) -> TokenEmbedding:
    """The embedding of the targets, that of the inputs where they share it."""
    if _shares(config, spec):
        shared: TokenEmbedding = input_embedding
        return shared
    return TokenEmbedding(
        spec.target_vocab_size,
        **table_options(config),
        word_dropout=config.word_dropout,
        name="target_embedding",
        dtype=policy,
    )


def make_target_start(config: Any, policy: str) -> TargetStart:
    """The learned first input of a decoder."""
    return TargetStart(**table_options(config), name="target_start", dtype=policy)


def _shares(config: Any, spec: ProblemSpec) -> bool:
    return bool(config.shared_embedding and spec.shared_vocab and spec.inputs == "tokens")
