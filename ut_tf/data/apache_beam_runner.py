"""Work divided among the workers of an Apache Beam runner.

How it is used::

    write_on_beam(functools.partial(encode, folder=folder), files, "runner=FlinkRunner,...")

Each file is written by a function of a module, on whichever worker takes its number, and is
complete or absent. So a stopped pipeline begins again with the files that are absent. Beam is
optional: pip install apache-beam.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ut_tf.errors import UserError, counted
from ut_tf.packages import check_package

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions

_SHOWN = 200
# States in which a pipeline ends without an error and without all of its work.
_UNFINISHED = ("FAILED", "CANCELLED", "DRAINED")


def require_beam() -> None:
    """Raises UserError where Apache Beam is not installed."""
    check_package(
        "apache_beam",
        "`beam_pipeline_options` needs",
        "apache-beam",
        "leave them out: this machine then does the work alone",
    )


def write_on_beam(work: Callable[[Any], Any], files: Sequence[Path], options: str) -> int:
    """Calls `work` with the number of each file that is not there; returns how many.

    Args:
      work, options: as for ``run_on_beam``.
      files: `work` writes the file of its number.

    Raises:
      UserError: as for ``run_on_beam``, or a file is missing although the pipeline ended well.
    """
    waiting = [number for number, file in enumerate(files) if not file.is_file()]
    run_on_beam(work, waiting, options)
    if missing := [file for file in files if not file.is_file()]:
        raise UserError(
            f"Apache Beam left {counted(len(missing), 'file')} unwritten, first {missing[0]}: all"
            " workers must write to that folder; the same command goes on with the rest."
        )
    return len(waiting)


def run_on_beam(work: Callable[[Any], Any], items: Sequence[Any], options: str) -> None:
    """Calls `work` with every item, on the workers of a runner, and waits for all of them.

    Args:
      work: a function of a module, or a partial of one, that can be pickled; it runs in the
        workers' processes, and what it returns is dropped.
      items: its arguments.
      options: of Beam's pipeline, "name=value,name=value", without dashes.

    Raises:
      UserError: Beam is not installed, does not know the options, or the pipeline failed.
    """
    require_beam()
    import apache_beam

    if not items:
        return
    try:
        pipeline = apache_beam.Pipeline(options=_parsed(options))
    except (ValueError, ImportError, AttributeError) as error:
        raise UserError(
            f"`beam_pipeline_options`={options}: {_first_line(error)}; expected options of a Beam"
            " pipeline, such as runner=DirectRunner."
        ) from error
    # Without the shuffle a runner may take all items as one bundle, for one worker.
    whole = pipeline | apache_beam.Create(list(items)) | apache_beam.Reshuffle()
    whole | apache_beam.Map(work)
    try:
        state = pipeline.run().wait_until_finish()
    except Exception as error:
        raise UserError(
            f"the Apache Beam pipeline stopped ({_last_line(error)}): what is finished is kept;"
            " the same command goes on with the rest."
        ) from error
    if state in _UNFINISHED:
        raise UserError(
            f"the Apache Beam pipeline ended as {state}: what is finished is kept; the same command"
            " goes on with the rest."
        )


def once_for_each_process() -> Any:
    """A handle for `work`: ``acquire(make)`` calls `make` once in each worker's process, and keeps
    what it returns.
    """
    require_beam()
    from apache_beam.utils.shared import Shared

    return Shared()


def _parsed(options: str) -> PipelineOptions:
    from apache_beam.options.pipeline_options import PipelineOptions

    flags = [f"--{option.strip()}" for option in options.split(",") if option.strip()]
    try:
        parsed = PipelineOptions(flags=flags)
        parsed.get_all_options()
    except SystemExit as error:
        # Its parser is that of a program, which prints what is wrong and ends.
        raise ValueError("Beam cannot read them") from error
    return parsed


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0].rstrip(".")[:_SHOWN]


def _last_line(error: BaseException) -> str:
    """The end of an error's text, which holds a worker's whole report."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[-1].strip().rstrip(".")[:_SHOWN]
