"""Write the page of formats from the registry: python tools/formats_page.py [FILE]."""

import sys
from pathlib import Path

from toruscast.mapping.formats.page import formats_page

PAGE = Path(__file__).parents[1] / "docs/reference/formats.md"

if __name__ == "__main__":
    (Path(sys.argv[1]) if len(sys.argv) > 1 else PAGE).write_text(formats_page())
