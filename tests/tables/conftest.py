"""ut-report on run directories written by hand."""

from __future__ import annotations

import pytest

from ut_tf.bin import report


@pytest.fixture
def run_report(tmp_path, capsys):
    """Runs ut-report on tmp_path/runs and gives its standard output."""

    def call(*flags):
        assert report.main([str(tmp_path / "runs"), *flags]) == 0
        return capsys.readouterr().out

    return call


@pytest.fixture
def runs(tmp_path):
    """The folder that ut-report looks in."""
    return tmp_path / "runs"
