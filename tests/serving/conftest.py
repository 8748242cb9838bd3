"""An export that only reading tests share: tracing one takes seconds."""

from __future__ import annotations

import pytest

from tests.serving.toy import HALTING, Exported
from ut_tf.search.config import DecodeConfig


@pytest.fixture(scope="session")
def questions(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """A halting classifier of two texts with all its signatures, whose inputs have a start."""
    folder = tmp_path_factory.mktemp("questions")
    hparams = f"{HALTING},input_start_symbol=true"
    return Exported(folder, "letter_questions", DecodeConfig(), hparams)
