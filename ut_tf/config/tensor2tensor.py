"""tensor2tensor's names of the hyperparameters, and what each of them is here."""

from __future__ import annotations

SAME = (
    "batch_size",
    "max_length",
    "min_length_bucket",
    "length_bucket_step",
    "hidden_size",
    "filter_size",
    "num_heads",
    "attention_dropout",
    "relu_dropout",
    "norm_epsilon",
    "label_smoothing",
    "optimizer",
    "weight_decay",
    "learning_rate",
    "transform_bias_init",
    "couple_carry_transform_gates",
    "lstm_forget_bias",
    "use_memory_as_final_state",
    "act_max_steps",
    "act_halting_bias_init",
    "act_epsilon",
    "act_loss_weight",
)
"""Names that mean the same on either side."""

# Their name -> ours, where the values are the same too.
RENAMED = {
    "num_rec_steps": "num_steps",
    "act_type": "halting",
    "transformer_ffn_type": "transition",
    "step_timing_signal_type": "step_encoding",
    "add_or_concat_timing_signal": "coordinate_form",
    "layer_prepostprocess_dropout": "dropout",
    "shared_embedding_and_softmax_weights": "shared_embedding",
    "use_target_space_embedding": "target_space_embedding",
    "symbol_dropout": "word_dropout",
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
    "num_encoder_layers": "num_layers, the same on either side",
    "num_decoder_layers": "num_layers, the same on either side",
    "recurrence_type": "recurrence (or halting, for act)",
    "num_inrecurrence_layers": "recurrence_layers",
    "mix_with_transformer": "mix_layers_before and mix_layers_after",
    "num_mixedin_layers": "mix_layers_before and mix_layers_after",
    "position_start_index": "position_offset=random or position_shift=step",
    "pos": "position",
    "add_position_timing_signal": "position_every_step",
    "add_step_timing_signal": "step_encoding",
    "layer_preprocess_sequence": "norm=pre, for n with da",
    "layer_postprocess_sequence": "norm=post, for none with dan",
    "self_attention_type": "relative_bias or position=rotary, for relative positions",
    "max_relative_position": "relative_bias",
    "attention_key_channels": "head_size, this divided by num_heads",
    "attention_value_channels": "head_size, this divided by num_heads",
    "learning_rate_cosine_cycle_steps": "decay_steps",
    "optimizer_multistep_accumulate_steps": "accumulate_steps",
    "learning_rate_schedule": "schedule",
    "learning_rate_decay_scheme": "schedule",
    "learning_rate_decay_steps": "decay_steps with schedule=cosine",
    "grad_noise_scale": "gradient_noise",
    "initializer": "kernel_init",
    "initializer_gain": "kernel_init",
    "multiply_embedding_mode": "embedding_scale",
    "use_fixed_batch_size": "batch_unit=examples",
    "activation_dtype": "dtype_policy",
    "gpu_automatic_mixed_precision": "dtype_policy",
    "mixed_precision_optimizer_loss_scaler": "loss_scale",
    "mixed_precision_optimizer_init_loss_scale": "loss_scale",
}

HINTS = {**RENAMED, **_RELATED}
"""Their name -> what a user types here."""

_ADAM = "the optimizer is Adam or Muon, both with weight decay where it is set"
_EXPERTS = "no mixtures of experts"
_VIDEO = "no images and videos"
_MIXED_PROBLEMS = (
    "no training on several problems at once; start one run from another with `warm_start_from`"
)
_SAMPLED_TARGETS = "targets are always those of the data in training"
_AREA = "no area attention"
_DATA = "every problem prepares its data for itself"
_LENGTHS = "max_length leaves longer examples out; ut-decoder has max_input_length"
_DROPOUT_SHAPE = "every value is dropped for itself"
_TPU = "no TPUs"
_DECODING = "a matter of decoding: `decode_hparams` of ut-decoder"
_DECAY = "schedule is noam, constant or cosine"
_AUTOMATIC = "happens by itself"
_MODALITIES = "a problem's ProblemSpec says what is read and answered"
_DWA = "recurrence=dwa has it built in"

GONE: dict[str, str] = {
    **dict.fromkeys(
        (
            "optimizer_momentum_momentum",
            "optimizer_momentum_nesterov",
            "optimizer_adafactor_beta1",
            "optimizer_adafactor_beta2",
            "optimizer_adafactor_factored",
            "optimizer_adafactor_decay_type",
            "optimizer_adafactor_memory_exponent",
            "optimizer_adafactor_clipping_threshold",
            "optimizer_adafactor_multiply_by_parameter_scale",
            "optimizer_zero_grads",
        ),
        _ADAM,
    ),
    **dict.fromkeys(
        (
            "learning_rate_decay_staircase",
            "learning_rate_minimum",
            "learning_rate_decay_rate",
        ),
        _DECAY,
    ),
    **dict.fromkeys(
        (
            "moe_hidden_sizes",
            "moe_num_experts",
            "moe_k",
            "moe_loss_coef",
            "moe_overhead_train",
            "moe_overhead_eval",
        ),
        _EXPERTS,
    ),
    **dict.fromkeys(("video_num_input_frames", "video_num_target_frames"), _VIDEO),
    **dict.fromkeys(("compress_steps", "kernel_height", "kernel_width"), _VIDEO),
    **dict.fromkeys(
        (
            "multiproblem_schedule_threshold",
            "multiproblem_per_task_threshold",
            "multiproblem_schedule_max_examples",
            "multiproblem_mixing_schedule",
            "multiproblem_reweight_label_loss",
            "multiproblem_label_weight",
            "multiproblem_target_eval_only",
            "multiproblem_vocab_size",
            "multiproblem_max_input_length",
            "multiproblem_max_target_length",
            "multiproblem_fixed_train_length",
            "nbr_decoder_problems",
        ),
        _MIXED_PROBLEMS,
    ),
    **dict.fromkeys(
        (
            "scheduled_sampling_prob",
            "scheduled_sampling_method",
            "scheduled_sampling_warmup_steps",
            "scheduled_sampling_gold_mixin_prob",
            "scheduled_sampling_num_passes",
            "scheduled_sampling_warmup_schedule",
        ),
        _SAMPLED_TARGETS,
    ),
    **dict.fromkeys(
        (
            "area_value_mode",
            "area_key_mode",
            "num_area_layers",
            "max_area_width",
            "max_area_height",
            "memory_height",
        ),
        _AREA,
    ),
    **dict.fromkeys(("sampling_method", "sampling_temp", "sampling_keep_top_k"), _DECODING),
    **dict.fromkeys(
        (
            "split_targets_chunk_length",
            "split_targets_max_chunks",
            "split_targets_strided_training",
            "split_to_length",
            "pack_dataset",
            "position_features",
        ),
        _DATA,
    ),
    **dict.fromkeys(
        (
            "min_length",
            "max_input_seq_length",
            "max_target_seq_length",
            "eval_drop_long_sequences",
        ),
        _LENGTHS,
    ),
    **dict.fromkeys(
        (
            "layer_prepostprocess_dropout_broadcast_dims",
            "attention_dropout_broadcast_dims",
            "relu_dropout_broadcast_dims",
        ),
        _DROPOUT_SHAPE,
    ),
    **dict.fromkeys(("tpu_enable_host_call", "pad_batch"), _TPU),
    **dict.fromkeys(
        (
            "batch_shuffle_size",
            "use_custom_ops",
            "use_pad_remover",
            "daisy_chain_variables",
            "no_data_parallelism",
            "factored_logits",
            "summarize_grads",
            "summarize_vars",
            "symbol_modality_num_shards",
            "vocab_divisor",
            "force_full_predict",
        ),
        _AUTOMATIC,
    ),
    **dict.fromkeys(("bottom", "loss", "name", "top", "weights_fn"), _MODALITIES),
    **dict.fromkeys(("depth_embedding", "dwa_elements"), _DWA),
    "weight_noise": "no noise on weights; gradient_noise has it on gradients",
    "weight_dtype": "weights are float32; dtype_policy is of what is computed",
    "norm_type": "norms are layer norms",
    "prepend_mode": "inputs have an encoder, or there are none (a language model)",
    "eval_run_autoregressive": "ut-eval decodes where the problem's metric asks for it",
    "pretrained_model_dir": "`warm_start_from`",
    "warm_start_from_second": "`warm_start_from` takes one run",
    "mlperf_mode": "no MLPerf log",
    "overload_eval_metric_name": "metrics have their own names",
    "heads_share_relative_embedding": "relative_bias has a number per head",
    "add_relative_to_values": "relative_bias is of the logits alone",
    "attention_variables_3d": "the same matrices, stored in two dimensions",
    "parameter_attention_key_channels": "the transition is no attention over parameters",
    "parameter_attention_value_channels": "the transition is no attention over parameters",
    "ffn_layer": "transition, fc or sepconv",
    "conv_first_kernel": "transition=sepconv has kernels 3 and 5",
    "proximity_bias": "relative_bias can learn it",
    "causal_decoder_self_attention": "a decoder never sees what comes later",
    "unidirectional_encoder": "an encoder sees all of its inputs",
    "hard_attention_k": "no hard attention",
    "gumbel_noise_weight": "no hard attention",
    "add_sru": "no simple recurrent unit inside a step; recurrent_layer is before all steps",
    "add_ffn_unit_to_the_transition_function": "the gates of gru and lstm take its place",
    "gate_ffn_layer": "gates are affine maps",
    "gates_inputs": "gates read the state, the block's output and the input",
    "dropconnect_dropout": "gates are affine maps",
}
"""Their name -> why there is no such hyperparameter, and what does its work."""
