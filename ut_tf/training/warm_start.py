"""Checks of a warm start: ids must mean the same in both runs, beside equal shapes."""

from ut_tf.errors import UserError
from ut_tf.run import Run
from ut_tf.storage.files import sha256_of
from ut_tf.storage.layout import SUBWORDS_FILE


def refuse_other_vocabulary(old: Run, new: Run) -> None:
    """Raises UserError where both runs have vocabulary files and these differ; names the files."""
    before, now = _checksums(old), _checksums(new)
    if not before or not now or before == now:
        return
    differing = sorted(name for name in before | now if before.get(name) != now.get(name))
    advice = "train without it"
    if SUBWORDS_FILE in before:
        advice = f"give `vocab_file`={old.vocab_dir / SUBWORDS_FILE} in a new `output_dir`"
    raise UserError(
        f"`warm_start_from`={old.output_dir}: its vocabulary is not that of {new.output_dir}"
        f" ({', '.join(differing)}), so its weights mean other symbols: {advice}."
    )


def _checksums(run: Run) -> dict[str, str]:
    """The checksums of the run's vocabulary files by name.

    Runs of earlier versions have only the files.
    """
    if run.vocab_sha256 or not run.vocab_dir.is_dir():
        return run.vocab_sha256
    return {path.name: sha256_of(path) for path in run.vocab_dir.iterdir() if path.is_file()}
