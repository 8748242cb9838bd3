"""The style sheets of pages: theme.css is that of all of them."""

from importlib.resources import files


def style_sheet(*names: str) -> str:
    """The CSS of files beside this one, one after the other.

    Args:
      names: of the files, without the ending.
    """
    folder = files("ut_tf.web")
    return "".join(folder.joinpath(f"{name}.css").read_text(encoding="utf-8") for name in names)
