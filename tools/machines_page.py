"""The pages of machines, made from the presets."""

from __future__ import annotations

from toruscast.mapping import machines

HEAD = """# Machines

This page lists the machines that `--torus` and `tc.torus` know; the page of each says where its
numbers come from. `make pages` writes it from the TOML file of each machine in `mapping/machines/`.

```sh
toruscast machines
toruscast machines tpu_v6e:8x16
toruscast rank --comm lammps-lj-64 --torus fugaku:4x4x4 --candidates orders
```

A machine is its name, alone or with sizes: `tpu_v6e:8x16`. An `m` after a size makes that dimension
a mesh, if the site or the job decides what wraps; other machines decide that by the sizes.
`--network hop_latency=90e-9` changes a number of the network, in Python
`torus.with_network(hop_latency=90e-9)`. [Add a machine](../guide/add-a-machine.md) shows the TOML
file of a torus of your own. `studies/results/presets.md` in the repository compares accelerators
with public measurements. `--candidates orders` ranks the orders in which the launcher of a machine
lays out ranks, such as `rank-map-bynode` of a job on Fugaku; `--out best.vcoord` writes the best
one, and `--coords` takes the nodes of a job that is not contiguous.

A machine with a name keeps its published rules. A torus without one, such as `8x8x8`, has unknown
rules: times are means over plausible networks. `--network known` uses Blue Gene/Q's rules instead.

A number is *published*, *measured*, or *assumed* where it is not public; *differs* marks a source
that disagrees. Numbers that a table does not list are the defaults of `Network`.

| machine | what it is | the name alone | nodes | bytes of a packet | ns a hop | us to start |
|---|---|---|---|---|---|---|
"""


_TABLE = "| numbers | how | what it says | source | date |\n|---|---|---|---|---|\n"


def pages() -> dict[str, str]:
    """Return the pages by their paths in docs: a list, and one for each machine."""
    known = [machines.Machine.from_name(name) for name in machines.names()]
    rows, written = "", {}
    for machine in known:
        torus = machine()
        network = torus.network
        cells = (
            f"[`{machine.name}`](machines/{machine.name}.md)",
            machine.title,
            f"`{str(torus).replace(' ', ':')}`",
            f"{torus.n_nodes:,}",
            f"{network.payload} + {network.header}",
            f"{network.hop_latency * 1e9:g}",
            f"{network.start * 1e6:g}",
        )
        rows += f"| {' | '.join(cells)} |\n"
        about = f"{machine.about}\n\n" if machine.about else ""
        sources = "".join(map(_row, machine.sources))
        text = f"# {machine.name}\n\n{machine.title}.\n\n{about}{_TABLE}{sources}"
        written[f"reference/machines/{machine.name}.md"] = text
    return {"reference/machines.md": HEAD + rows, **written}


def _row(source: machines.Citation) -> str:
    of = ", ".join(f"`{key}`" for key in source.of)
    return f"| {of} | {source.how} | {source.says} | {source.source} | {source.date} |\n"
