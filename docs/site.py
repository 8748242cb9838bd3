"""Hooks of the site (mkdocs.yml): README, changelog and contributing become pages of it, links out
of docs/ lead to those pages, or to the source on GitHub, generated tables are filled, and equations
are drawn. Names break behind "_" and "." alone, the API has the names that are imported, and what
readers search for is found: the site is not built otherwise.
"""

import importlib.util
import json
import posixpath
import re
from pathlib import Path
from typing import Any

import latex2mathml.converter
import lunr
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

import ut_tf
from ut_tf import layers, metrics

ROOT = Path(__file__).resolve().parent.parent
SOURCE = "https://github.com/ut-tf/ut-tf/tree/main"
PAGES = {
    "README.md": "overview.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
}
# What readers look for in their words, and the page that says it.
SEARCHED = {
    "more steps at test time": "halting.md",
    "input injection": "looped.md",
    "recurrent depth": "looped.md",
    "8 GPUs": "training.md",
    "several GPUs": "training.md",
    "cluster": "scaling.md",
    "onnx": "faq.md",
    "limitations": "limits.md",
    "own data": "problems/own_texts.md",
    "rouge": "evaluation.md",
}
# As Material's search weighs what it finds.
_BOOSTS = {"tags": 1e6, "title": 1e3, "text": 1}
_LINK = re.compile(r"\]\(([^)#\s:]+)(#[^)\s]*)?\)")
_BADGES = re.compile(r"^\[!\[.*\n", re.MULTILINE)
_CODE = re.compile(r"(^```.*?^```)", re.DOTALL | re.MULTILINE)
_MATH = re.compile(r"^```math\n(.*?)^```", re.DOTALL | re.MULTILINE)
_BLOCK = re.compile(r"(<pre\b.*?</pre>)", re.DOTALL)
_INLINE_CODE = re.compile(r"<code>([^<]*)</code>")
_INTERVAL = re.compile(r"\[(-?\d+\.\d+), (-?\d+\.\d+)\]")
_CALL = re.compile(r'<details class="call-arguments".*?</details>', re.DOTALL)
# What stands below an argument's first line begins with blanks.
_ARGUMENT = re.compile(r"(^|<p>)(\w[\w, ]*): ", re.MULTILINE)
_OBJECT = re.compile(
    r'(<h\d id="([\w.]+)" class="doc doc-heading">.*?<span class="doc doc-object-name[^>]*>)[^<]*',
    re.DOTALL,
)


def on_files(files: Any, config: Any) -> Any:
    """Adds the pages that lie beside docs/."""
    for name, page in PAGES.items():
        content = (ROOT / name).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=content))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Rewrites the links of a page that lead out of docs/, or into it."""
    path = page.file.src_uri
    page.meta["tags"] = [words for words, found in SEARCHED.items() if found == path]
    if path == "index.md":
        page.meta["hide"] = ["navigation", "toc"]
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
    parts[1::2] = [_MATH.sub(lambda block: _mathml(block[1]), part) for part in parts[1::2]]
    # The word after the language is for the tests.
    return "".join(parts).replace("```python usage\n", "```python\n")


def _tables() -> Any:
    """Returns the module ``generate.py``, which lies beside this one."""
    spec = importlib.util.spec_from_file_location("docs_generate", ROOT / "docs" / "generate.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _mathml(equations: str) -> str:
    """Equations in LaTeX, one a line, as a browser draws them without a script."""
    lines = filter(None, map(str.strip, equations.splitlines()))
    drawn = (latex2mathml.converter.convert(line, display="block") for line in lines)
    return f'<div class="math">{"".join(drawn)}</div>\n'


def on_page_content(html: str, **_: Any) -> str:
    """Leaves out the double colons before the examples of docstrings, begins a line for each of
    the arguments of a call, and names what a package offers as it does.
    """
    html = html.replace("<p>::</p>", "").replace("::</p>", ":</p>")
    html = _CALL.sub(lambda block: _ARGUMENT.sub(r"\1<br><code>\2</code>: ", block[0]), html)
    public = _public_names()
    return _OBJECT.sub(
        lambda found: found[1] + public[found[2]] if found[2] in public else found[0], html
    )


def _public_names() -> dict[str, str]:
    """Where a class or function is defined -> its name in ut_tf, ut_tf.layers or ut_tf.metrics."""
    names = {}
    for package in (ut_tf, layers, metrics):
        for name, source in package._SOURCES.items():
            names[source.replace(":", ".") if ":" in source else f"{source}.{name}"] = (
                f"{package.__name__}.{name}"
            )
    return names


def on_post_page(output: str, **_: Any) -> str:
    """Lets names in the text break behind "_" and "." alone, and intervals nowhere."""
    parts = _BLOCK.split(output)
    # Every second part is a block of code.
    parts[::2] = [
        _INLINE_CODE.sub(
            lambda code: f"<code>{re.sub(r'(?<=[_.=/,])(?=[^_.=/,])', '<wbr>', code[1])}</code>",
            _INTERVAL.sub(r"[\1,&nbsp;\2]", part),
        )
        for part in parts[::2]
    ]
    return "".join(parts)


def on_post_build(config: Any) -> None:
    """Checks that the search finds what readers look for, on the page that says it."""
    index = Path(config.site_dir) / "search" / "search_index.json"
    entries = json.loads(index.read_text(encoding="utf-8"))["docs"]
    documents = [
        {name: entry.get(name, "") for name in ("location", "title", "text")}
        | {"tags": " ".join(entry.get("tags", []))}
        for entry in entries
    ]
    fields = [{"field_name": name, "boost": boost} for name, boost in _BOOSTS.items()]
    search = lunr.lunr(ref="location", fields=fields, documents=documents)
    for words, page in SEARCHED.items():
        place = page.removesuffix("index.md").removesuffix(".md").removesuffix("/") + "/"
        found = [hit["ref"].partition("#")[0] for hit in search.search(words)[:1]]
        if found != [place]:
            raise PluginError(f"the search for {words!r} finds {found}, not {place}.")


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
