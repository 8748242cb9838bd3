"""Bad command lines that are written by hand: values, numbers, servers and the environment."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import tiny
from bad_files import bad_files
from bad_words import LONG_NAME, Case, good_lines, with_value

_DIGITS = "9" * 400
_OVERRIDES = (
    "nosuch=1",
    "=",
    "=1",
    "hidden_size",
    "hidden_size=",
    "hidden_size=abc",
    "hidden_size=-1",
    "hidden_size=0",
    "hidden_size=1.5",
    "hidden_size=1e99",
    f"hidden_size={_DIGITS}",
    "hidden_size=7,num_heads=2",
    "hidden_size=8;dropout=0.1",
    "hidden_size=[8]",
    "hidden_size={}",
    "hidden_size=True",
    "hidden_size=8 16",
    "hiden_size=8",
    "HIDDEN_SIZE=8",
    "num_heads=0",
    "num_heads=none",
    "num_steps=0",
    "num_steps=-3",
    "num_steps=two",
    "filter_size=0",
    "dropout=2",
    "dropout=1",
    "dropout=-0.1",
    "dropout=nan",
    "dropout=inf",
    "dropout=10%",
    "attention_dropout=1.5",
    "batch_size=0",
    "batch_size=-8",
    f"batch_size={_DIGITS}",
    "batch_size=1e3x",
    "batch_unit=bytes",
    "max_length=0",
    "learning_rate=0",
    "learning_rate=-1",
    "learning_rate=nan",
    "learning_rate=inf",
    "learning_rate=fast",
    "schedule=linear",
    "warmup_steps=-1",
    "warmup_steps=0.5",
    "decay_steps=0",
    "adam_beta1=1",
    "adam_beta2=-1",
    "adam_epsilon=0",
    "weight_decay=-1",
    "clip_norm=-1",
    "label_smoothing=1",
    "loss_scale=static",
    "average_decay=1",
    "dtype_policy=float8",
    "dtype_policy=",
    "jit_compile=perhaps",
    "curriculum=random",
    "accumulate_steps=0",
    "train_steps=0",
    "eval_frequency=0",
    "keep_checkpoint_max=0",
    "early_stopping_patience=-1",
    "vocab_size=-1",
    "subword_model=word",
    "length_bucket_step=1",
    "min_length_bucket=0",
    "halting=perhaps",
    "position=gps",
    "recurrence=lstn",
    "norm=batch",
    "transition=mlp",
    "kernel_init=zeros2",
    "norm_epsilon=0",
    "act_epsilon=2",
    "eval_num_steps=0",
    "ponder_prior=2",
    "nosuch",
    "a=1,b=2,c=3",
    "\udcff=1",
    "hidden_size=\u0668\u0000",
    "x" * 5000,
    "=" * 5000,
    "[" * 5000,
)
_DECODING = (
    "beam_size=0",
    "beam_size=-1",
    "beam_size=abc",
    f"beam_size={_DIGITS}",
    "beam_size=1.5",
    "alpha=nan",
    "alpha=inf",
    "alpha=x",
    "n_best=0",
    "n_best=9,beam_size=4",
    "n_best=2,beam_size=1",
    "extra_length=-1",
    "max_length=-1",
    "max_length=x",
    "min_length=-1",
    "min_length=5,max_length=2",
    "sampling=perhaps",
    "temperature=0,sampling=true",
    "temperature=-1,sampling=true",
    "temperature=nan,sampling=true",
    "top_k=-1,sampling=true",
    "top_p=0,sampling=true",
    "top_p=1.5,sampling=true",
    "strategy=nosuch",
    "strategy=",
    "batch_size=0",
    "batch_size=-4",
    "max_input_length=-1",
    "write_beam_scores=2",
    "wide_ends=x",
    "nosuch=1",
    "beam_size",
    "=4",
    "beam_size=4;alpha=1",
    "beamsize=4",
)
_PROBLEM_ARGS = (
    "nosuch=1",
    "train_questions=0",
    "train_questions=-1",
    "train_questions=abc",
    "train_questions=1.5",
    f"train_questions={_DIGITS}",
    "train_questions=100000000000000000000",
    "test_questions=0",
    "test_questions=x",
    "story_length=-1",
    "story_length=x",
    "supporting_facts=9",
    "supporting_facts=0",
    "train_questions",
    "=4",
    "train_questions=1+2",
    "train_questions=40;test_questions=2",
    "train_questions=True",
    "train_question=40",
)
_CLUSTERS = (
    "{",
    "5",
    "[]",
    '{"cluster": 5}',
    '{"cluster": {"worker": ["localhost:1"]}, "task": {"type": "worker", "index": 7}}',
    '{"cluster": {"worker": ["localhost:99999", "b:1"]}, "task": {"type": "worker", "index": 0}}',
    '{"cluster": {"worker": ["a:1", "a:1"]}, "task": {"type": "worker", "index": 0}}',
    '{"cluster": {"worker": ["a", "b"]}, "task": {"type": "worker", "index": 0}}',
    '{"cluster": {"ps": ["a:1"], "worker": ["b:1"]}, "task": {"type": "ps", "index": 0}}',
    '{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": "x"}}',
    '{"cluster": {"worker": ["a:1", "b:1"]}}',
    "\x00",
    "[" * 100_000,
)
_SERVERS = (
    "nosuch",
    "http://",
    "http://my..host:8501",
    "http://localhost:99999",
    "http://localhost:x",
    "ftp://localhost",
    "file:///etc/passwd",
    "http://[::1",
    "http://a b",
    "http://\x1b[2J",
    "http://" + "a" * 300,
    "http://127.0.0.1:1",
    "javascript:alert(1)",
    "http://\u65e5\u672c:1",
)


def by_hand(folder: Path) -> Iterator[Case]:
    """Yields the cases; files that they need are written into `folder`."""
    yield from _values(folder)
    yield from bad_files(folder)
    yield from _surroundings(folder)


def _values(folder: Path) -> Iterator[Case]:
    lines = good_lines(folder)
    for text in _OVERRIDES:
        yield Case("trainer", with_value(lines["trainer"], "hparams", text), "hyperparameters")
    for text in _OVERRIDES[:24]:
        yield Case("eval", (*lines["eval"], f"--hparams={text}"), "hyperparameters")
    for text in ("hidden_size=16", "num_heads=2", "batch_size=2", "learning_rate=1"):
        for command in ("eval", "decoder", "exporter", "show", "insights"):
            yield Case(command, (*lines[command], f"--hparams={text}"), "hyperparameters")
    for text in _DECODING:
        for command in ("decoder", "exporter", "translate_all"):
            line = (*lines[command], f"--decode_hparams={text}")
            yield Case(command, line, "options of decoding")
    for text in _PROBLEM_ARGS:
        for command in ("trainer", "datagen"):
            line = with_value(lines[command], "problem_args", text)
            yield Case(command, line, "arguments of problems")
    for text in ("train_questions=x", "nosuch=1"):
        line = (*lines["eval"], f"--test_problem={tiny.PROBLEM}", f"--test_problem_args={text}")
        yield Case("eval", line, "arguments of problems")
    for text in ("nosuch=1", "devices=0", "devices=x", "gpus=nosuch", "price=-1", "length=0"):
        yield Case("trainer", (*lines["trainer"], "--plan", f"--plan_args={text}"), "plans")
    for name in _SERVERS:
        yield Case("query", (*lines["query"], f"--server={name}"), "servers")
    yield from _together(lines, folder)


def _together(lines: dict[str, list[str]], folder: Path) -> Iterator[Case]:
    """Flags that do not go together, and numbers out of their bounds."""
    run = str(folder / "run")
    for command, *words in (
        ("trainer", "--train_steps=0"),
        ("trainer", "--train_steps=-5"),
        ("trainer", "--log_frequency=0"),
        ("trainer", "--local_eval_frequency=0"),
        ("trainer", "--keep_checkpoint_max=0"),
        ("trainer", "--num_gpus=-1"),
        ("trainer", "--num_gpus=9"),
        ("trainer", "--random_seed=-1"),
        ("trainer", "--random_seed=4294967296"),
        ("trainer", "--plan_args=devices=2"),
        ("trainer", "--target_files=a"),
        ("trainer", f"--warm_start_from={folder / 'ende' / 'run'}"),
        ("trainer", f"--output_dir={run}", "--random_seed=3"),
        ("trainer", f"--output_dir={run}"),
        ("eval", "--test_problem_args=a=1"),
        ("eval", "--lengths=0"),
        ("eval", "--lengths=40,x"),
        ("eval", "--lengths=40"),
        ("eval", "--json=all"),
        ("eval", "--exit_sweep", "--json=record"),
        ("eval", "--checkpoint=3"),
        ("eval", "--checkpoint=-2"),
        ("eval", "--checkpoint=\u00b2"),
        ("eval", f"--checkpoint={run}"),
        ("eval", "--problem=babi_qa"),
        ("eval", "--hparams_set=ut_base"),
        ("eval", f"--model={run}"),
        ("decoder", "--decode_shards=0"),
        ("decoder", "--decode_shards=2", "--shard=2"),
        ("decoder", "--shard=-1"),
        ("decoder", "--random_seed=-1"),
        ("decoder", f"--decode_to_file={folder / 'questions.txt'}"),
        ("decoder", f"--score_file={folder / 'lines.txt'}", "--decode_interactive"),
        ("avg_checkpoints", "--n=0"),
        ("avg_checkpoints", "--n=99"),
        ("avg_checkpoints", "--best=1"),
        ("avg_checkpoints", "--checkpoints=99"),
        ("avg_checkpoints", "--checkpoints=0"),
        ("avg_checkpoints", f"--avg_dir={run}"),
        ("show", "--examples=-1"),
        ("show", "--html=page.txt"),
        ("insights", "--examples=-1"),
        ("insights", "--histogram_examples=-1"),
        ("insights", "--port=99999"),
        ("insights", "--compare_checkpoint=5"),
        ("bleu", "--checkpoints"),
        ("bleu", f"--checkpoints={run}"),
        ("translate_all", "--n=0"),
        ("translate_all", f"--output_dir={run}"),
        ("exporter", "--version=-1"),
        ("exporter", "--format=model", "--warmup"),
        ("exporter", "--format=litert", "--dtype=bfloat16"),
        ("exporter", "--signatures=nosuch"),
        ("exporter", "--upload_to=hf://a/b"),
        ("report", "--format=xml"),
        ("report", "--tables=99"),
        ("report", "--tables=x"),
        ("report", "--page=nosuch.md"),
        ("sweep", "--seeds=1..x"),
        ("sweep", "--parallel=0"),
        ("sweep", "--task=1"),
        ("sweep", "--tasks=0"),
        ("sweep", "--halving=2"),
        ("sweep", "--", "--output_dir=a"),
        ("sweep", "--", "--nosuch=1"),
        ("sweep", "--problems={1..99999999999}"),
        ("sweep", "--problems={a,b"),
        ("query", "--batch_size=0"),
        ("query", "--timeout=0"),
        ("query", "--timeout=-1"),
        ("query", "--timeout=nan"),
        ("query", "--model_version=-1"),
        ("query", "--model_name=../x"),
        ("query", "--signature=nosuch"),
        ("serve", "--port=-1"),
        ("serve", "--port=65536"),
        ("serve", "--host=nosuchhost.invalid"),
        ("serve", "--host=256.1.1.1"),
        ("serve", "--max_batch_size=0"),
        ("serve", "--num_batch_threads=0"),
        ("serve", "--max_waiting=0"),
        ("serve", "--max_body_mb=0"),
        ("serve", "--max_body_mb=nan"),
        ("serve", "--timeout=0"),
        ("serve", "--timeout=inf"),
        ("serve", "--allowed_hosts=a b"),
        ("serve", f"--export_dir={run}"),
        ("import_t2t", "--target_space_id=-1"),
        ("import_t2t", "--target_space_id=99999"),
        ("import_t2t", f"--output_dir={run}"),
    ):
        yield Case(command, (*lines[command], *words), "numbers and flags together")


def _surroundings(folder: Path) -> Iterator[Case]:
    lines = {command: tuple(line) for command, line in good_lines(folder).items()}
    about = "environment"
    for text in _CLUSTERS:
        if "\x00" not in text:
            yield Case("trainer", lines["trainer"], about, {"TF_CONFIG": text})
    nowhere = str(folder / "file" / "x")
    homeless = {"HOME": "/nonexistent/home", "UT_TF_DATA_DIR": nowhere}
    without = tuple(word for word in lines["datagen"] if not word.startswith("--data_dir"))
    yield Case("datagen", without, about, homeless)
    yield Case("datagen", without, about, {"UT_TF_DATA_DIR": f"/{LONG_NAME}"})
    yield Case("datagen", without, about, {"UT_TF_DATA_DIR": "~nosuchuser/data"})
    gone = {"TF_CONFIG": None, "SLURM_JOB_ID": None}
    yield Case("trainer", (*lines["trainer"], "--cluster=slurm"), about, gone)
    slurm = {"SLURM_STEP_NUM_TASKS": "x", "SLURM_PROCID": "0", "SLURM_STEP_NODELIST": "a[1-"}
    yield Case("trainer", (*lines["trainer"], "--cluster=slurm"), about, slurm)
