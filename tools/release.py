"""Write the version and checksum of a release into the recipes and CITATION.cff.

python tools/release.py dist/toruscast-0.1.0.tar.gz
"""

from __future__ import annotations

import hashlib
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
# Patterns to replace in each file. The old value is between two groups, which do not change.
PLACES = {
    "packaging/conda-forge/recipe.yaml": (
        (r'(\n  version: ")[^"]*(")', "version"),
        (r'(\n  sha256: ")[^"]*(")', "sum"),
    ),
    "packaging/spack/package.py": (
        (r'(pypi = "toruscast/toruscast-)[^"]*(\.tar\.gz")', "version"),
        (r'(\n    version\(")[^"]*(", sha256=")', "version"),
        (r'(sha256=")[^"]*("\))', "sum"),
    ),
    "CITATION.cff": ((r"(\nversion: )[^\n]*(\n)", "version"),),
}


def main(archive: Path, root: Path = ROOT) -> None:
    """Write version and checksum; the argument is the archive that will be uploaded."""
    name = re.fullmatch(r"toruscast-(\d[\w.]*)\.tar\.gz", archive.name)
    if name is None:
        raise SystemExit(f"{archive}: expected toruscast-VERSION.tar.gz")
    values = {"version": name[1], "sum": hashlib.sha256(archive.read_bytes()).hexdigest()}
    for place, changes in PLACES.items():
        path = root / place
        text = path.read_text()
        for pattern, what in changes:
            text, found = re.subn(pattern, rf"\g<1>{values[what]}\g<2>", text)
            if found != 1:
                raise SystemExit(f"{place}: {what} stands {found} times, expected once")
        path.write_text(text)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
