"""tensor2tensor's flags and what each of them is here: the answer to who types one, and the table
of the documentation.
"""

from __future__ import annotations

from typing import Literal, NamedTuple


class Counterpart(NamedTuple):
    """What a flag is here.

    Fields:
      kind: "same" (with tensor2tensor's name), "renamed", or "gone".
      text: of "same", the commands that have it, with spaces between; of "renamed", what is typed
        instead; of "gone", why it is not there and what does its work.
    """

    kind: Literal["same", "renamed", "gone"]
    text: str


def _same(commands: str) -> Counterpart:
    return Counterpart("same", commands)


def _renamed(instead: str) -> Counterpart:
    return Counterpart("renamed", instead)


def _gone(reason: str) -> Counterpart:
    return Counterpart("gone", reason)


_CLUSTER = _renamed("the environment variable TF_CONFIG")
_NO_CLOUD = _gone("ut-tf starts no machines; run ut-trainer on those that you have")
_NO_TPU = _gone("ut-tf trains on CPUs and GPUs")
_NO_WAITING = _gone("ut-tf waits for no checkpoints; give the command when they are there")
_NO_DISTILLING = _gone("ut-tf does not distil one model into another")
_NO_ATTACKS = _gone("ut-tf has no adversarial attacks")
_ALWAYS_SEEDED = "ut-trainer ut-datagen ut-decoder"
_NO_PARAMETER_SERVER = _gone("every worker keeps all weights; there are no parameter servers")

FLAGS: dict[str, Counterpart] = {
    # What to train and where (t2t-trainer, and most other commands).
    "problem": _same("ut-trainer ut-datagen ut-import-t2t ut-decoder ut-exporter"),
    "model": _same("ut-trainer ut-decoder ut-exporter"),
    "hparams_set": _same("ut-trainer ut-datagen ut-decoder ut-exporter"),
    "hparams": _same("ut-trainer ut-datagen"),
    "hparams_range": _gone("ut-sweep --grid runs every combination of hyperparameters"),
    "data_dir": _same("ut-trainer ut-datagen ut-eval ut-decoder ut-exporter"),
    "tmp_dir": _same("ut-trainer ut-datagen ut-eval"),
    "output_dir": _same("ut-trainer ut-eval ut-decoder ut-exporter"),
    "t2t_usr_dir": _same("ut-trainer ut-datagen ut-eval ut-decoder ut-exporter"),
    "registry_help": _same("ut-trainer ut-datagen"),
    "generate_data": _same("ut-trainer"),
    "random_seed": _same(_ALWAYS_SEEDED),
    # Training.
    "train_steps": _same("ut-trainer"),
    "eval_steps": _same("ut-trainer"),
    "schedule": _same("ut-trainer"),
    "local_eval_frequency": _same("ut-trainer"),
    "keep_checkpoint_max": _same("ut-trainer"),
    "keep_checkpoint_every_n_hours": _gone(
        "--keep_checkpoint_max says how many are kept, and the best is always kept"
    ),
    "save_checkpoints_secs": _renamed("--local_eval_frequency: each evaluation saves a checkpoint"),
    "warm_start_from": _same("ut-trainer"),
    "log_step_count_steps": _renamed("--log_frequency"),
    "worker_gpu": _same("ut-trainer"),
    "worker_gpu_memory_fraction": _renamed(
        "the environment variable TF_FORCE_GPU_ALLOW_GROWTH=true: memory is taken as it is needed"
    ),
    "gpu_order": _renamed("the environment variable CUDA_VISIBLE_DEVICES"),
    "gpu_automatic_mixed_precision": _renamed("--hparams=dtype_policy=mixed_bfloat16"),
    "xla_compile": _renamed("--hparams=jit_compile=true"),
    "xla_jit_level": _renamed("--hparams=jit_compile=true"),
    "intra_op_parallelism_threads": _renamed("--intra_op_threads"),
    "inter_op_parallelism_threads": _renamed("--inter_op_threads"),
    "profile": _gone("ut-trainer writes no profile; tf.profiler does around your own loop"),
    "dbgprofile": _gone("ut-trainer writes no profile; tf.profiler does around your own loop"),
    "tfdbg": _gone("TensorFlow 2 has no tfdbg; tf.debugging has checks for your own code"),
    "log_device_placement": _gone("ut-trainer says at its start what it trains on"),
    "enable_graph_rewriter": _gone("TensorFlow 2 rewrites graphs by itself"),
    "disable_grappler_optimizations": _gone("TensorFlow 2 rewrites graphs by itself"),
    "use_guarantee_const_getter": _gone("it was of TPUs alone"),
    # Validation and stopping.
    "eval_early_stopping_steps": _renamed("--hparams=early_stopping_patience=N, in evaluations"),
    "eval_early_stopping_metric": _gone(
        "early_stopping_patience goes by the metric that chooses checkpoints"
    ),
    "eval_early_stopping_metric_delta": _gone("early_stopping_patience counts every improvement"),
    "eval_early_stopping_metric_minimize": _gone("each metric knows which way is better"),
    "eval_timeout_mins": _gone("training evaluates by itself"),
    "eval_throttle_seconds": _renamed("--local_eval_frequency, in updates"),
    "eval_use_test_set": _renamed("ut-eval, which uses the test data"),
    "eval_run_autoregressive": _renamed(
        "ut-eval, which decodes where the problem's metric asks it"
    ),
    # Several machines.
    "master": _CLUSTER,
    "worker_job": _CLUSTER,
    "worker_replicas": _CLUSTER,
    "worker_id": _same("ut-decoder"),
    "sync": _gone("workers always update together"),
    "ps_job": _NO_PARAMETER_SERVER,
    "ps_replicas": _NO_PARAMETER_SERVER,
    "ps_gpu": _NO_PARAMETER_SERVER,
    "std_server_protocol": _CLUSTER,
    "optionally_use_dist_strat": _gone("all GPUs are used without it"),
    "masters": _CLUSTER,
    "ps": _NO_PARAMETER_SERVER,
    # TPUs and clouds.
    "use_tpu": _NO_TPU,
    "use_tpu_estimator": _NO_TPU,
    "tpu_num_shards": _NO_TPU,
    "tpu_job_name": _NO_TPU,
    "tpu_infeed_sleep_secs": _NO_TPU,
    "cloud_tpu_name": _NO_TPU,
    "iterations_per_loop": _NO_TPU,
    "cloud_mlengine": _NO_CLOUD,
    "cloud_mlengine_master_type": _NO_CLOUD,
    "cloud_mlengine_model_name": _NO_CLOUD,
    "cloud_mlengine_model_version": _NO_CLOUD,
    "job-dir": _NO_CLOUD,
    "autotune_objective": _gone("ut-sweep --search goes by the metric that chooses checkpoints"),
    "autotune_maximize": _gone("each metric knows which way is better"),
    "autotune_max_trials": _renamed("ut-sweep --search with --trials"),
    "autotune_parallel_trials": _renamed("ut-sweep --search with --parallel"),
    # Decoding.
    "decode_hparams": _same("ut-decoder ut-eval ut-exporter ut-translate-all ut-bleu"),
    "decode_from_file": _same("ut-decoder ut-query"),
    "decode_to_file": _same("ut-decoder"),
    "decode_interactive": _same("ut-decoder"),
    "decode_shards": _same("ut-decoder"),
    "decode_reference": _renamed("ut-bleu --reference"),
    "decode_in_memory": _renamed("ut_tf.Translator in Python"),
    "score_file": _same("ut-decoder"),
    "checkpoint_path": _same("ut-decoder ut-exporter ut-eval ut-import-t2t"),
    "keep_timestamp": _gone("outputs get the time at which they are written"),
    # Export and serving.
    "export_dir": _same("ut-exporter ut-serve"),
    "export_saved_model": _renamed("ut-exporter"),
    "export_saved_model_api_version": _gone("exports are of TensorFlow 2"),
    "export_as_tfhub": _renamed("ut-exporter --format=model"),
    "as_text": _gone("SavedModels are written in binary form"),
    "server": _same("ut-query"),
    "servable_name": _same("ut-query"),
    "timeout_secs": _same("ut-query"),
    "inputs_once": _renamed("standard input, or --decode_from_file"),
    "configuration": _renamed("ut-insights --output_dir"),
    "static_path": _gone("the page of ut-insights is one file"),
    # Data.
    "num_shards": _same("ut-datagen"),
    "max_cases": _same("ut-datagen"),
    "only_list": _same("ut-datagen"),
    "exclude_problems": _gone("--problem takes names and patterns"),
    "task_id": _gone("ut-datagen uses all cores, or Beam with --beam_pipeline_options"),
    "task_id_start": _gone("ut-datagen uses all cores, or Beam with --beam_pipeline_options"),
    "task_id_end": _gone("ut-datagen uses all cores, or Beam with --beam_pipeline_options"),
    "num_concurrent_processes": _gone(
        "ut-datagen uses all cores, or Beam with --beam_pipeline_options"
    ),
    "env_problem_max_env_steps": _gone("ut-tf has no reinforcement learning"),
    "env_problem_batch_size": _gone("ut-tf has no reinforcement learning"),
    # Averages and scores.
    "model_dir": _same("ut-avg-checkpoints ut-translate-all ut-bleu ut-eval ut-decoder"),
    "n": _same("ut-avg-checkpoints ut-translate-all"),
    "checkpoints": _same("ut-avg-checkpoints ut-translate-all ut-bleu"),
    "num_last_checkpoints": _renamed("--n"),
    "prefix": _renamed("--output_dir with --checkpoints"),
    "output_path": _renamed("--avg_dir"),
    "min_steps": _renamed("--checkpoints of ut-avg-checkpoints, --steps of ut-bleu"),
    "wait_minutes": _NO_WAITING,
    "source": _same("ut-translate-all ut-bleu"),
    "reference": _same("ut-translate-all ut-bleu"),
    "translation": _same("ut-translate-all ut-bleu"),
    "translations_dir": _renamed("ut-bleu --checkpoints, which translates with each and scores it"),
    "bleu_variant": _same("ut-translate-all ut-bleu"),
    "event_dir": _gone("ut-bleu prints its scores; ut-trainer writes those of validation"),
    "tag_suffix": _gone("ut-bleu prints its scores; ut-trainer writes those of validation"),
    "report_zero": _gone("ut-bleu prints its scores; ut-trainer writes those of validation"),
    "decoder_command": _gone("ut-translate-all decodes by itself"),
    "beam_size": _renamed("--decode_hparams=beam_size=4"),
    "alpha": _renamed("--decode_hparams=alpha=0.6"),
    # Other programs.
    "pruning_params_set": _gone(
        "ut-tf does not prune; ut-exporter --quantize=int8 makes it smaller"
    ),
    "attack_params_set": _NO_ATTACKS,
    "surrogate_attack": _NO_ATTACKS,
    "surrogate_model": _NO_ATTACKS,
    "surrogate_hparams_set": _NO_ATTACKS,
    "surrogate_output_dir": _NO_ATTACKS,
    "ignore_incorrect": _NO_ATTACKS,
    "skip_teacher_training": _NO_DISTILLING,
    "teacher_dir": _NO_DISTILLING,
    "student_dir": _NO_DISTILLING,
}
"""Every flag of tensor2tensor's commands."""


def answer(name: str, command: str) -> str | None:
    """What a command that lacks the flag `name` says of it; None: it is none of tensor2tensor's."""
    found = FLAGS.get(name) or FLAGS.get(name.removeprefix("no"))
    if found is None:
        return None
    if found.kind == "renamed":
        return f"in ut-tf it is {found.text}."
    if found.kind == "gone":
        return f"ut-tf has no such flag: {found.text}."
    owners = [owner for owner in found.text.split() if owner != command]
    return f"it is a flag of {' and '.join(owners)}; leave it out."
