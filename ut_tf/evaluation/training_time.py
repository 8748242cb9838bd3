"""How long a run was trained, from the times in its TensorBoard files.

Example::

    training_minutes(run.output_dir, step=500)

How it works: each process that trained wrote a file of its own, from the moment it began, and every
event in it has its time and step. The time between the first event and the last one of a step that
counts is added up over the files; pauses between processes are not.
"""

import errno
import os
import struct
from pathlib import Path

import tensorflow as tf

from ut_tf.storage.files import MOST_JSON_BYTES, open_regular
from ut_tf.storage.layout import EVENTS_FOLDER

_OTHERS = ".bleu"
_HEADER = struct.Struct("<Q")


def training_minutes(output_dir: Path, step: int) -> float | None:
    """The minutes that a run's processes trained up to `step`, validation included; None
    where no file tells, or one is unreadable.

    Args:
      output_dir: of the run.
      step: up to which the time counts.
    """
    files = [
        path
        for path in sorted((Path(output_dir) / EVENTS_FOLDER).glob("*tfevents*"))
        if path.suffix != _OTHERS
    ]
    try:
        for path in files:
            _check_lengths(path)
        seconds = sum(_seconds(path, step) for path in files)
    except (OSError, tf.errors.PermissionDeniedError):
        return None  # The time in the others alone would be too short.
    return seconds / 60 if seconds else None


def _check_lengths(path: Path) -> None:
    """Raises OSError where a file is no regular one, or an event in it declares to be longer than
    events are: TensorFlow takes the memory before it reads, and ends the process if there is none.
    """
    with open_regular(path) as file:
        while len(header := file.read(_HEADER.size)) == _HEADER.size:
            (length,) = _HEADER.unpack(header)
            if length > MOST_JSON_BYTES:
                raise OSError(errno.EINVAL, f"an event declares {length:,} bytes", str(path))
            # The checksums of the length and of the event.
            file.seek(length + 8, os.SEEK_CUR)


def _seconds(path: Path, step: int) -> float:
    times = []
    try:
        for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
            event = tf.compat.v1.Event.FromString(record)
            if event.step <= step:
                times.append(event.wall_time)
    except tf.errors.DataLossError:
        # The last event of a process that was killed while it wrote; those before it were read.
        pass
    return max(times) - min(times) if times else 0.0
