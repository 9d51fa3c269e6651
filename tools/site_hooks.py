"""What MkDocs does besides: notebooks become pages, as they stand, without running them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from nbconvert import MarkdownExporter

# pandas puts a style into every table; the site has its own.
_STYLE = re.compile(r"<style scoped>.*?</style>\n?", re.S)


def on_files(files: Files, config: Any) -> Files:
    """Add a page for every notebook."""
    for file in list(files):
        if file.src_uri.endswith(".ipynb"):
            text, _ = MarkdownExporter().from_filename(file.abs_src_path)
            page = str(Path(file.src_uri).with_suffix(".md"))
            text = f"{_STYLE.sub('', text)}\n[The notebook]({Path(file.src_uri).name})\n"
            files.append(File.generated(config, page, content=text))
    return files
