"""Hooks of the site (mkdocs.yml): README, changelog and contributing become pages of it, links out
of docs/ lead to those pages, or to the source on GitHub, and generated tables are filled.
"""

import importlib.util
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parent.parent
SOURCE = "https://github.com/ut-tf/ut-tf/tree/main"
PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
}
_LINK = re.compile(r"\]\(([^)#\s:]+)(#[^)\s]*)?\)")
_BADGES = re.compile(r"^\[!\[.*\n", re.MULTILINE)
_CODE = re.compile(r"(^```.*?^```)", re.DOTALL | re.MULTILINE)


def on_files(files: Any, config: Any) -> Any:
    """Adds the pages that lie beside docs/."""
    for name, page in PAGES.items():
        content = (ROOT / name).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=content))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Rewrites the links of a page that lead out of docs/, or into it."""
    path = page.file.src_uri
    names = {site: name for name, site in PAGES.items()}
    if "<!-- generated: " in markdown or "<!-- site: " in markdown:
        markdown = _tables().filled(markdown)
    # Badges are images from elsewhere.
    markdown = _BADGES.sub("", markdown)
    # Where the page lies in the checkout.
    place = names.get(path, f"docs/{path}")
    parts = _CODE.split(markdown)
    # Every second part is a block of code.
    parts[::2] = [
        _LINK.sub(lambda link: f"]({_target(link[1], place)}{link[2] or ''})", part)
        for part in parts[::2]
    ]
    # The word after the language is for the tests.
    return "".join(parts).replace("```python usage\n", "```python\n")


def _tables() -> Any:
    """Returns the module ``generate.py``, which lies beside this one."""
    spec = importlib.util.spec_from_file_location("docs_generate", ROOT / "docs" / "generate.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def on_page_content(html: str, **_: Any) -> str:
    """Leaves out the double colons before the examples of docstrings."""
    return html.replace("<p>::</p>", "").replace("::</p>", ":</p>")


def _target(link: str, place: str) -> str:
    """The target of a link on a page at `place` in the checkout, as the site has it."""
    target = posixpath.normpath(posixpath.join(posixpath.dirname(place), link))
    if not (ROOT / target).exists():
        raise PluginError(f"{place} links to {link}, which does not exist.")
    if target in PAGES:
        target = f"docs/{PAGES[target]}"
    elif not target.startswith("docs/") or target.endswith(".py"):
        return f"{SOURCE}/{target}"
    here = place if place.startswith("docs/") else "docs/index.md"
    return posixpath.relpath(target, posixpath.dirname(here))
