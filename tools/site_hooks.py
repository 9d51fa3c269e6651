"""Hooks of MkDocs: pages of notebooks and Python objects, and a search that needs no server."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from nbconvert import MarkdownExporter

sys.path.insert(0, str(Path(__file__).parent))
import api_page

# Remove the style that pandas adds to every table; the site has its own.
API = "reference/api/"
_STYLE = re.compile(r"<style scoped>.*?</style>\n?", re.S)
# The theme's search runs in a worker. A page that is opened from disk may not load the worker's
# script, but may run a script that it contains.
_WORKER = """if (location.protocol === "file:") {{
  const Plain = Worker;
  const script = {script};
  window.Worker = function () {{
    return new Plain(URL.createObjectURL(new Blob([script], {{ type: "text/javascript" }})));
  }};
}}
"""
_PICTURE = re.compile(r"<svg.*?</svg>", re.S)
WORKER = "assets/iframe-worker.js"


def on_config(config: Any) -> Any:
    """Replace the navigation's entries of folders by their files, and add the pages of Python."""
    config.nav = _filled(config.nav, Path(config.docs_dir))
    return config


def _filled(nav: list[Any], docs: Path) -> list[Any]:
    """Return the navigation; an entry that ends in "/" becomes the files of this folder."""
    filled: list[Any] = []
    for entry in nav:
        if isinstance(entry, dict):
            ((title, inside),) = entry.items()
            filled.append({title: _filled(inside, docs) if isinstance(inside, list) else inside})
        elif entry == API:
            filled += api_page.navigation()
        elif entry.endswith("/"):
            filled += sorted(str(path.relative_to(docs)) for path in (docs / entry).glob("*.md"))
        else:
            filled.append(entry)
    return filled


def on_files(files: Files, config: Any) -> Files:
    """Add a page for each public Python name and each notebook."""
    for page, content in api_page.pages().items():
        files.append(File.generated(config, page, content=content))
    for file in list(files):
        if file.src_uri.endswith(".ipynb"):
            text, _ = MarkdownExporter().from_filename(file.abs_src_path)
            page = str(Path(file.src_uri).with_suffix(".md"))
            # A blank line would end the HTML block of a picture.
            text = _PICTURE.sub(lambda found: re.sub(r"\n\s*\n", "\n", found[0]), text)
            # The site styles tables without a class. pandas leaves the heading of an index empty.
            text = text.replace(' border="1" class="dataframe"', "").replace(
                "<th></th>", "<td></td>"
            )
            text = f"{_STYLE.sub('', text)}\n[The notebook]({Path(file.src_uri).name})\n"
            files.append(File.generated(config, page, content=text))
    return files


def on_post_page(output: str, **_: Any) -> str:
    """Name the search dialog for screen readers, because the theme does not."""
    return output.replace('role="dialog"', 'role="dialog" aria-label="Search"', 1)


# The page for missing pages is a template.
on_post_template = on_post_page


def on_post_build(config: Any) -> None:
    """Write the worker of the search to a file that pages opened from disk can load."""
    site = Path(config.site_dir)
    (script,) = site.glob("assets/javascripts/workers/search.*.min.js")
    source = json.dumps(script.read_text(encoding="utf-8"))
    (site / WORKER).write_text(_WORKER.format(script=source), encoding="utf-8")
