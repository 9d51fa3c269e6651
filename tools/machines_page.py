"""Write `docs/reference/machines.md` from the presets: `make machines-page`."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path

from toruscast.mapping import machines

HEAD = """# Machines

This page lists the machines that `--torus` and `tc.machine` know, and where each number comes from.
The presets in `mapping/machines/` are its source, and a test keeps both the same (`make
machines-page` writes it anew). On the command line:

```sh
toruscast machines
toruscast machines tpu_v6e:8x16
toruscast fugaku 4x4x4 --comm lammps-lj-64
```

The last ranks the orders in which a job on Fugaku can lay out its ranks (`rank-map-bynode`), with
the gain of each, and writes the best placement as a `vcoordfile`.

A machine is typed as its name, alone or with sizes: `tpu_v6e:8x16`. An `m` after a size makes that
dimension a mesh, where the site or the job decides what wraps; other machines decide that by the
sizes. Any number of a network can be changed: `--network hop_latency=90e-9` on the command line,
`torus.with_network(hop_latency=90e-9)` in Python.

A torus of your own stands in a TOML file, `--torus mine.toml` or `tc.read_torus("mine.toml")`:

```toml
shape = [8, 8, 16]              # or machine = "tpu_v5p:8x8x16", to change some of it
wrap = [true, true, false]
bandwidth = [50e9, 50e9, 25e9]  # bytes per second of a link each way
[network]
hop_latency = 90e-9
```

| machine | what it is | the name alone | nodes | bytes of a packet | ns a hop |
|---|---|---|---|---|---|
"""


def page() -> str:
    """Return the page."""
    known = [machines.facts(name) for name in machines.names()]
    rows, parts = [], []
    for facts in known:
        torus = facts.default
        network = torus.network
        cells = (
            f"`{facts.name}`",
            facts.title,
            f"`{str(torus).replace(' ', ':')}`",
            f"{torus.n_nodes:,}",
            f"{network.payload} + {network.header}",
            f"{network.hop_latency * 1e9:g}",
        )
        rows.append(f"| {' | '.join(cells)} |\n")
        body = "\n\n".join(text.replace("``", "`") for text in (facts.about, facts.sources) if text)
        parts.append(f"\n## {facts.name}\n\n{facts.title}.\n\n{body}\n")
    return HEAD + "".join(rows) + "".join(parts)


if __name__ == "__main__":
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path, help="the file to write")
    parser.parse_args().page.write_text(page(), encoding="utf-8")
