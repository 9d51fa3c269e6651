"""Write the edges of each capture in `datasets` as arrays, which load faster than the text.

    python tools/pack_datasets.py

Run it after `tools/provenance.py`. NAME.npz holds an array for each kind of traffic, of shape
(4, n_edges): source, destination, bytes and messages.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from toruscast import datasets, read_comm
from toruscast.mapping.comm_graph import COLUMNS


def arrays(name: str) -> dict[str, NDArray[np.int64]]:
    """Return the edges of a capture for each kind of traffic, as its text gives them."""
    found = {}
    for kind in datasets.KINDS:
        graph = read_comm(datasets.path(name), include=kind)
        columns = np.array([getattr(graph, column) for column in COLUMNS])
        found[kind] = columns.astype(np.int64)
    return found


def main() -> None:
    for name in datasets.names():
        file = Path(datasets.__file__).with_name(f"{name}.npz")
        np.savez_compressed(file, **arrays(name))
        print(f"{file.name}: {file.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
