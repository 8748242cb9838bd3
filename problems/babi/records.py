"""Stories on disk: text records of tensorflow-datasets, one for each story."""

import contextlib
import io
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds

from ut_tf.problems.babi.stories import Story

VERSION = "1.1.0"
_BATCH = 1024


class BabiStories(tfds.core.GeneratorBasedBuilder):  # type: ignore[misc]
    """Writes stories as text records.

    Args:
      stories: for each split its stories, in the order in which they are to be read.
      config: name of the folder that holds these stories.
      data_dir: the data directory.
    """

    VERSION = tfds.core.Version(VERSION)

    def __init__(self, stories: Mapping[str, list[Story]], config: str, data_dir: str) -> None:
        self._stories = stories
        super().__init__(
            data_dir=data_dir, config=tfds.core.BuilderConfig(name=config, version=VERSION)
        )

    def _info(self) -> Any:
        features = {
            "task": np.int32,
            "sentences": tfds.features.Sequence(tfds.features.Text()),
            "questions": tfds.features.Sequence(tfds.features.Text()),
            "answers": tfds.features.Sequence(tfds.features.Text()),
            "positions": tfds.features.Sequence(np.int32),
            "supporting": tfds.features.Sequence(tfds.features.Text()),
        }
        # The order is the source's: training shuffles examples in memory, by its seed.
        return tfds.core.DatasetInfo(
            builder=self, features=tfds.features.FeaturesDict(features), disable_shuffling=True
        )

    def _split_generators(self, dl_manager: Any) -> dict[str, Any]:
        # A split without stories cannot be written: its absence means that it is empty.
        return {
            split: self._generate_examples(stories)
            for split, stories in self._stories.items()
            if stories
        }

    def _generate_examples(self, stories: list[Story]) -> Iterator[tuple[int, dict[str, Any]]]:
        for key, story in enumerate(stories):
            supporting = [" ".join(map(str, lines)) for lines in story.supporting]
            yield key, {**vars(story), "supporting": supporting}


def write_records(stories: Mapping[str, list[Story]], config: str, data_dir: Path) -> None:
    """Writes the stories of each split below `data_dir`.

    tensorflow-datasets prints sizes ("Unknown") and a bar for every split, which last for a second;
    both are caught here, since its own switch for bars belongs to the user.
    """
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        BabiStories(stories, config, str(data_dir)).download_and_prepare()


def read_records(folder: Path, split: str) -> dict[str, Any]:
    """The features of a whole split: "task" [stories], the others RaggedTensors [stories, ...].

    Args:
      folder: that ``write_records`` filled.
      split: its name.
    """
    builder = tfds.builder_from_directory(str(folder / VERSION))
    if split not in builder.info.splits:
        return _no_records()
    config = tfds.ReadConfig(interleave_cycle_length=1)
    dataset = builder.as_dataset(split=split, shuffle_files=False, read_config=config)
    batches = list(dataset.ragged_batch(_BATCH))
    return {name: tf.concat([batch[name] for batch in batches], 0) for name in _no_records()}


def _no_records() -> dict[str, Any]:
    def rows(dtype: Any) -> Any:
        lengths = tf.constant([], tf.int64)
        return tf.RaggedTensor.from_row_lengths(tf.constant([], dtype), lengths)

    texts = {name: rows(tf.string) for name in ("sentences", "questions", "answers", "supporting")}
    return {"task": tf.constant([], tf.int32), "positions": rows(tf.int32), **texts}
