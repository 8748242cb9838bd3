"""The style sheet that all pages of ut-tf share."""

from importlib.resources import files


def theme() -> str:
    """Colors for light and dark, letters and buttons, CSS."""
    return files("ut_tf.web").joinpath("theme.css").read_text(encoding="utf-8")
