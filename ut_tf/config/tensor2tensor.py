"""tensor2tensor's names of the hyperparameters that are named differently here."""

from __future__ import annotations

# Their name -> ours, where the values are the same too.
RENAMED = {
    "num_rec_steps": "num_steps",
    "act_type": "halting",
    "transformer_ffn_type": "transition",
    "step_timing_signal_type": "step_encoding",
    "layer_prepostprocess_dropout": "dropout",
    "shared_embedding_and_softmax_weights": "shared_embedding",
    "use_target_space_embedding": "target_space_embedding",
    "learning_rate_constant": "learning_rate",
    "learning_rate_warmup_steps": "warmup_steps",
    "optimizer_adam_beta1": "adam_beta1",
    "optimizer_adam_beta2": "adam_beta2",
    "optimizer_adam_epsilon": "adam_epsilon",
    "clip_grad_norm": "clip_norm",
}

# Their name -> what a user types here, where the values or the meaning differ.
_RELATED = {
    "num_hidden_layers": "num_steps, or num_layers of a model without recurrence",
    "recurrence_type": "recurrence (or halting, for act)",
    "num_inrecurrence_layers": "recurrence_layers",
    "mix_with_transformer": "mix_layers_before and mix_layers_after",
    "num_mixedin_layers": "mix_layers_before and mix_layers_after",
    "position_start_index": "position_offset",
    "learning_rate_schedule": "schedule",
    "initializer": "kernel_init",
    "multiply_embedding_mode": "embedding_scale",
}

HINTS = {**RENAMED, **_RELATED}
"""Their name -> what a user types here."""
