"""Run directories with random weights, made without training and without data: all that the
commands about text need.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import tensorflow as tf

from ut_tf.data.text.vocabulary import UNKNOWN, write_symbols
from ut_tf.problem_spec import ProblemSpec
from ut_tf.run import Run
from ut_tf.storage.checkpoints import CheckpointStore

TINY = "hidden_size=8,filter_size=8,num_heads=1,num_steps=1"
WORDS = (UNKNOWN, "mary", "john", "left", "moved", "to", "the", "kitchen", "where", "is")
ANSWERS = ("hall", "kitchen", "garden")


def digits_run(
    output_dir: Path, steps: tuple[int, ...] = (100,), problem: str = "algorithmic_copy_decimal40"
) -> Run:
    """Returns a run that copies digits, in principle; its best checkpoint is the first."""
    run = Run.create(
        problem,
        "ut_algorithmic",
        TINY,
        output_dir=output_dir,
        data_dir=output_dir / "data",
        tmp_dir=output_dir / "tmp",
    )
    save(run, steps)
    return run


def stories_run(
    output_dir: Path,
    problem: str = "babi_qa_task1_1k",
    hparams_set: str = "ut_babi",
    hparams: str = TINY,
    words: tuple[str, ...] = WORDS,
    answers: tuple[str, ...] = ANSWERS,
) -> Run:
    """Returns a run that answers bAbI's questions, in principle."""
    data_dir = output_dir.with_name("data")
    plan = Run.plan(
        problem, hparams_set, hparams, output_dir=output_dir, data_dir=data_dir, tmp_dir=data_dir
    )
    for path, symbols in zip(
        plan.make_problem().vocab_files(data_dir), (words, answers), strict=True
    ):
        write_symbols(path, symbols)
    facts = "concat" not in problem
    spec = ProblemSpec(
        "facts" if facts else "tokens",
        "class",
        len(words) + 2,
        len(answers),
        max_words=6 if facts else 0,
    )
    run = dataclasses.replace(plan, spec=spec)
    run._write()
    save(run, (100,))
    return run


def save(run: Run, steps: tuple[int, ...], metrics: dict[str, float] | None = None) -> None:
    """Writes a checkpoint of random weights for each step; the first is the best. Each has these
    metrics of validation.
    """
    store = CheckpointStore(run.output_dir)
    for step in steps:
        store.save(
            step,
            tf.train.Checkpoint(model=dataclasses.replace(run, seed=step).make_model()),
            {
                "best_step": steps[0],
                "averaged": False,
                **({"step": step, "evaluated_step": step, "metrics": metrics} if metrics else {}),
            },
        )


def translation_run(
    folder: Path,
    steps: tuple[int, ...] = (100, 200),
    hparams: str = "",
    hparams_set: str = "ut_translate_small",
) -> Run:
    """Returns a run that translates, in principle, with its prepared data; the files lie in
    `folder`.
    """
    texts = {"train": range(100, 160), "dev": range(200, 204), "test": range(300, 306)}
    for part, numbers in texts.items():
        (folder / f"{part}.en").write_text("".join(f"the number {number}\n" for number in numbers))
        (folder / f"{part}.de").write_text("".join(f"Die Zahl {number}.\n" for number in numbers))
    arguments = {
        f"{part}{side}_files": [str(folder / f"{part.removesuffix('_') or 'train'}.{language}")]
        for part in ("", "dev_", "test_")
        for side, language in (("source", "en"), ("target", "de"))
    }
    sizes = TINY if hparams_set.startswith("ut_") else TINY.replace("num_steps", "num_layers")
    overrides = f"{sizes},vocab_size=300,dtype_policy=float32" + (f",{hparams}" if hparams else "")
    run = Run.create(
        "translate_files",
        hparams_set,
        overrides,
        output_dir=folder / "run",
        data_dir=folder / "data",
        tmp_dir=folder,
        problem_args=arguments,
    )
    save(run, steps)
    return run
