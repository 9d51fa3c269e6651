"""The page of machines, made from the presets."""

from __future__ import annotations

from toruscast.mapping import machines

HEAD = """# Machines

This page lists the machines that `--torus` and `tc.torus` know, and where each number comes from.
`make pages` writes it from the TOML file of each machine in `mapping/machines/`.

```sh
toruscast machines
toruscast machines tpu_v6e:8x16
toruscast rank --comm lammps-lj-64 --torus fugaku:4x4x4 --candidates orders
```

A machine is its name, alone or with sizes: `tpu_v6e:8x16`. An `m` after a size makes that dimension
a mesh, if the site or the job decides what wraps; other machines decide that by the sizes.
`--network hop_latency=90e-9` changes a number of the network, in Python
`torus.with_network(hop_latency=90e-9)`. [Add a machine](../guide/add-a-machine.md) shows the TOML
file of a torus of your own. [Presets beside measurements](../studies/presets.md) compares
accelerators with public measurements. `--candidates orders` ranks the orders in which the launcher
of a machine lays out ranks, such as `rank-map-bynode` of a job on Fugaku; `--out best.vcoord`
writes the best one, and `--coords` takes the nodes of a job that is not contiguous.

A number is *published*, *measured*, or *assumed* where it is not public; *differs* marks a source
that disagrees. Numbers that a table does not list are the defaults of `Network`.

| machine | what it is | the name alone | nodes | bytes of a packet | ns a hop | us to start |
|---|---|---|---|---|---|---|
"""


_TABLE = "| numbers | how | what it says | source | date |\n|---|---|---|---|---|\n"


def page() -> str:
    """Return the page."""
    known = [machines.Machine.from_name(name) for name in machines.names()]
    rows, parts = [], []
    for machine in known:
        torus = machine()
        network = torus.network
        cells = (
            f"`{machine.name}`",
            machine.title,
            f"`{str(torus).replace(' ', ':')}`",
            f"{torus.n_nodes:,}",
            f"{network.payload} + {network.header}",
            f"{network.hop_latency * 1e9:g}",
            f"{network.start * 1e6:g}",
        )
        rows.append(f"| {' | '.join(cells)} |\n")
        about = f"{machine.about}\n\n" if machine.about else ""
        sources = "".join(map(_row, machine.sources))
        parts.append(f"\n## {machine.name}\n\n{about}{_TABLE}{sources}")
    return HEAD + "".join(rows) + "".join(parts)


def _row(source: machines.Citation) -> str:
    of = ", ".join(f"`{key}`" for key in source.of)
    return f"| {of} | {source.how} | {source.says} | {source.source} | {source.date} |\n"
