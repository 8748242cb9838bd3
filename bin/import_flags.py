"""What ut-import and ut-import-t2t share: the flags of an imported run, and the import itself."""

from typing import Any

from ut_tf import registry
from ut_tf.bin.frame.command import import_tensorflow, stdout_to_stderr
from ut_tf.bin.frame.flags import FlagError
from ut_tf.bin.frame.readable_run import evaluation_line
from ut_tf.interop.tensor2tensor_files import read_hparams
from ut_tf.paths import expanded


def check_names(values: Any) -> None:
    """Raises UserError where --problem is unknown; imports the code of --usr_dir."""
    if values.usr_dir:
        registry.import_user_code(values.usr_dir)
    if values.problem:
        registry.problems.check(values.problem)


def import_tensor2tensor(values: Any) -> None:
    """Makes a run directory of tensor2tensor's, given the values of the flags."""
    if values.target_space_id is not None and values.target_space_id < 0:
        raise FlagError(
            f"--target_space_id={values.target_space_id}: expected the number of a row, from 0."
        )
    check_names(values)
    # A wrong folder is answered before TensorFlow is imported.
    read_hparams(expanded(values.t2t_dir))
    with stdout_to_stderr():
        import_tensorflow()
        from ut_tf.interop.tensor2tensor import import_run

        run = import_run(
            values.t2t_dir,
            values.output_dir,
            problem=values.problem,
            checkpoint=values.checkpoint,
            target_space_id=values.target_space_id,
            data_dir=values.data_dir,
            tmp_dir=values.tmp_dir,
            problem_args=values.problem_args,
            usr_dir=values.usr_dir,
            vocab=values.vocab,
        )
    # With a vocabulary alone there is no text to be judged.
    has_text = "vocab_file" not in run.problem_args or "source_files" in run.problem_args
    command = "ut-eval" if has_text else "ut-decoder"
    print(f"next: {evaluation_line(values.output_dir, values.usr_dir, command=command)}")
