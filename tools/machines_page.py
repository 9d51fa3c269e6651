"""The page of machines, made from the presets."""

from __future__ import annotations

from toruscast.mapping import machines

HEAD = """# Machines

This page lists the machines that `--torus` and `tc.machine` know, and where each number comes from.
`make pages` writes it from the presets in `mapping/machines/`.

```sh
toruscast machines
toruscast machines tpu_v6e:8x16
toruscast fugaku 4x4x4 --comm lammps-lj-64
```

A machine is its name, alone or with sizes: `tpu_v6e:8x16`. An `m` after a size makes that dimension
a mesh, if the site or the job decides what wraps; other machines decide that by the sizes.
`--network hop_latency=90e-9` changes a number of the network, in Python
`torus.with_network(hop_latency=90e-9)`. [Add a machine](../guide/add-a-machine.md) shows the TOML
file of a torus of your own. `toruscast fugaku` ranks the orders in which a job on Fugaku can lay
out its ranks (`rank-map-bynode`), and writes the best placement as a `vcoordfile`.

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
        parts.append(f"\n## {facts.name}\n\n{body}\n")
    return HEAD + "".join(rows) + "".join(parts)
