"""Bad command lines that are written by hand: values, files, folders and the environment."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import tiny
from bad_words import LONG_NAME, Case, good_lines

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
_CONFIGURATIONS = (
    b"",
    b"\xff\xfe",
    b"[]",
    b"5",
    b"null",
    b'"text"',
    b"{",
    b"{}",
    b"[" * 100_000,
    b'{"a":' * 50_000,
    b"\0" * 100,
    b"{'problem': 'a'}",
    b'{"format_version": 99}',
    b'{"format_version": "1"}',
    b"NaN",
)
_CHANGES: tuple[tuple[str, object], ...] = (
    ("problem", 5),
    ("problem", "nosuch"),
    ("problem", None),
    ("problem", ["a"]),
    ("problem_args", 5),
    ("problem_args", {"nosuch": 1}),
    ("problem_args", []),
    ("hparams", []),
    ("hparams", {}),
    ("hparams", {"network": 5}),
    ("hparams", {"model": "nosuch", "network": {}}),
    ("hparams", {"model": "universal_transformer", "network": {"hidden_size": -1}}),
    ("hparams", {"model": "universal_transformer", "network": {"hidden_size": 10**30}}),
    ("hparams", {"model": "universal_transformer", "network": {"nosuch": 1}}),
    ("seed", None),
    ("seed", "0"),
    ("seed", 1e999),
    ("spec", 5),
    ("spec", {}),
    ("spec", {"inputs": "tokens", "targets": "tokens", "input_vocab_size": -1}),
    ("spec", {"inputs": "nosuch", "targets": "class", "input_vocab_size": 4}),
    ("vocab_sha256", ["a"]),
    ("vocab_sha256", {"words.txt": 5}),
    ("usr_dir", 5),
    ("usr_dir", "taskcode"),
    ("data_dir", 5),
    ("format_version", 2),
)
# ut-trainer writes these anew, from its flags and the vocabulary's files.
_OF_OTHERS = tuple(
    number
    for number, (name, value) in enumerate(_CHANGES)
    if name == "usr_dir" or value == {"words.txt": 5}
)
_STORIES: tuple[bytes, ...] = (
    b"\xff\xfe\x00",
    b"1 Mary went home.\n2 Where is Mary\n\xff\n",
    b"Mary went home.\n",
    b"1\n",
    b"1 Where is Mary?\thome\tx\n",
    b"1 Where is Mary?\thome\t99999999999999999999999\n",
    b"9" * 5000 + b" Mary went home.\n",
)
_SCORED: tuple[bytes, ...] = (
    b"one column\n",
    b"a\tb\tc\td\te\n",
)
_YAML: tuple[bytes, ...] = (
    b"problem: [\n",
    b"- a\n- b\n",
    b"5",
    b"nosuch: 1\n",
    b"problem: {a: 1}\n",
    b"hparams: 5\n",
    b"&a [*a]\n",
    b"problem: !!python/object/apply:os.system ['true']\n",
    b"\xff\xfe\xfa",
    b"problem:\n\t- a\n",
    b"train_steps: many\n",
    b"{" * 10_000,
    b"problem: a\nproblem: b\n",
)
_PAIRS: tuple[tuple[bytes, bytes], ...] = (
    (b"", b""),
    (b"a\nb\n", b"c\n"),
    (b"\xff\n", b"a\n"),
    (b"a\n", b"\xff\n"),
    (b"\x1f\x8b\x08damaged", b"a\n"),
    (b"a\n", b""),
)
_T2T: tuple[tuple[str, bytes], ...] = (
    ("hparams.json", b""),
    ("hparams.json", b"[]"),
    ("hparams.json", b"{}"),
    ("hparams.json", b'{"hidden_size": null}'),
    ("hparams.json", b'{"hidden_size": "a"}'),
    ("hparams.json", b'{"hidden_size": -1}'),
    ("hparams.json", b"\xff\xfe"),
    ("hparams.json", b"[" * 100_000),
    ("model.ckpt-301.index", b""),
    ("model.ckpt-301.index", b"\0" * 100),
    ("model.ckpt-301.data-00000-of-00002", b""),
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
    yield from _files(folder)
    yield from _configurations(folder)
    yield from _surroundings(folder)


def _values(folder: Path) -> Iterator[Case]:
    lines = good_lines(folder)
    for text in _OVERRIDES:
        yield Case("trainer", _with(lines["trainer"], "hparams", text), "hyperparameters")
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
            line = _with(lines[command], "problem_args", text)
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
        ("sweep", "--minutes=x"),
        ("sweep", "--minutes=a=-1"),
        ("sweep", "--halving=2"),
        ("sweep", "--launcher=shared", "--halving=0.5"),
        ("sweep", "--launcher_args=a"),
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


def _files(folder: Path) -> Iterator[Case]:
    lines = good_lines(folder)
    for number, content in enumerate(_STORIES):
        path = _written(folder / f"stories{number}", content)
        yield Case("decoder", (*lines["decoder"], f"--decode_from_file={path}"), "input files")
    for number, content in enumerate(_SCORED):
        path = _written(folder / f"scored{number}", content)
        line = [lines["decoder"][0], f"--score_file={path}"]
        yield Case("decoder", tuple(line), "input files")
    for number, content in enumerate(_YAML):
        path = _written(folder / f"flags{number}.yaml", content)
        yield Case("trainer", (f"--config={path}", *lines["trainer"][3:]), "files of flags")
    for number, (source, target) in enumerate(_PAIRS):
        first = _written(folder / f"pairs{number}.a", source)
        second = _written(folder / f"pairs{number}.b", target)
        files = (f"--source_files={first}", f"--target_files={second}")
        for problem in ("translate_files", "classify_files"):
            line = _with(_with(lines["datagen"], "problem", problem), "problem_args", "")
            yield Case("datagen", (*line, *files), "training text")
        if number:
            texts = (f"--translation={first}", f"--reference={second}")
            yield Case("bleu", texts, "translations")
    for number, (name, content) in enumerate(_T2T):
        path = folder / f"t2t{number}"
        path.mkdir(exist_ok=True)
        for original in (folder / "t2t").iterdir():
            _written(path / original.name, original.read_bytes())
        _written(path / name, content)
        line = _with(lines["import_t2t"], "t2t_dir", str(path))
        yield Case("import_t2t", tuple(line), "tensor2tensor's files")


def _configurations(folder: Path) -> Iterator[Case]:
    """Run directories whose config.json is of another kind, or has a bad value."""
    original = json.loads((folder / "run" / "config.json").read_text())
    changed = [json.dumps({**original, name: value}).encode() for name, value in _CHANGES]
    for number, content in enumerate((*_CONFIGURATIONS, *changed)):
        run = folder / f"changed{number}"
        (run / "checkpoints").mkdir(parents=True, exist_ok=True)
        if not (run / "vocab").exists():
            (run / "vocab").symlink_to(folder / "run" / "vocab")
            name = "step-00000006"
            (run / "checkpoints" / name).symlink_to(folder / "run" / "checkpoints" / name)
        _written(run / "config.json", content)
        about = "config.json"
        questions = f"--decode_from_file={folder / 'questions.txt'}"
        yield Case("decoder", (f"--output_dir={run}", questions), about)
        if number - len(_CONFIGURATIONS) not in _OF_OTHERS:
            yield Case("trainer", tuple(tiny.flags(folder, run)), about)


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


def _with(line: list[str], flag: str, value: str) -> tuple[str, ...] | list[str]:
    """A line with another value of a flag."""
    return [*(word for word in line if not word.startswith(f"--{flag}=")), f"--{flag}={value}"]


def _written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path
