"""What MkDocs does besides: pages of notebooks, and a search that needs no server."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from nbconvert import MarkdownExporter

# pandas puts a style into every table; the site has its own.
_STYLE = re.compile(r"<style scoped>.*?</style>\n?", re.S)
# The theme's search runs in a worker, whose script a page opened from disk may not load. A page may
# run one that it holds itself.
_WORKER = """if (location.protocol === "file:") {{
  const Plain = Worker;
  const script = {script};
  window.Worker = function () {{
    return new Plain(URL.createObjectURL(new Blob([script], {{ type: "text/javascript" }})));
  }};
}}
"""
WORKER = "assets/iframe-worker.js"


def on_files(files: Files, config: Any) -> Files:
    """Add a page for every notebook, as it stands: nothing is run."""
    for file in list(files):
        if file.src_uri.endswith(".ipynb"):
            text, _ = MarkdownExporter().from_filename(file.abs_src_path)
            page = str(Path(file.src_uri).with_suffix(".md"))
            text = f"{_STYLE.sub('', text)}\n[The notebook]({Path(file.src_uri).name})\n"
            files.append(File.generated(config, page, content=text))
    return files


def on_post_build(config: Any) -> None:
    """Write the search's worker where a page from disk finds it."""
    site = Path(config.site_dir)
    (script,) = site.glob("assets/javascripts/workers/search.*.min.js")
    source = json.dumps(script.read_text(encoding="utf-8"))
    (site / WORKER).write_text(_WORKER.format(script=source), encoding="utf-8")
