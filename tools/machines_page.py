"""Make the pages of machines from their TOML files."""

from __future__ import annotations

from toruscast.mapping import machines

HEAD = """# Machines

This page lists the machines that `--torus` and `tc.torus` accept. The page of each machine gives
the sources of its numbers. `make pages` writes these pages from the TOML files in
`mapping/machines/`.

```sh
toruscast machines
toruscast machines tpu_v6e:8x16
toruscast rank --comm lammps-lj-64 --torus fugaku:4x4x4 --candidates orders
```

A machine is given by its name, or by its name and sizes: `tpu_v6e:8x16`. An `m` after a size means
that the dimension does not wrap (a mesh). It is allowed for machines on which the site or the job
decides which dimensions wrap. On other machines the sizes decide this. `--network
hop_latency=90e-9` changes a number of the network, as `torus.with_network(hop_latency=90e-9)` does
in Python. [Add a machine](../guide/add-a-machine.md) describes the TOML file for your own torus.
`studies/results/presets.md` in the repository compares accelerators with public measurements.

`--candidates orders` ranks the orders of ranks that the launcher of a machine offers, such as
`rank-map-bynode` on Fugaku. `--out best.vcoord` writes the best one. `--coords` gives the nodes of
a job that is not contiguous.

A machine with a name has its published rules. The rules of a torus without a name, such as `8x8x8`,
are unknown: its times are means over plausible networks. `--network known` uses the rules of Blue
Gene/Q.

A number is *published*, *measured*, or, if it is not public, *assumed*. *differs* marks a source
that gives another number. Numbers that are not in the table of a machine are the defaults of
`Network`.

| machine | what it is | default | nodes | payload + header, bytes | hop, ns | start-up, us |
|---|---|---|---|---|---|---|
"""


_TABLE = "| numbers | status | content of the source | source | date |\n|---|---|---|---|---|\n"


def pages() -> dict[str, str]:
    """Return the pages by path in docs: a list, and a page for each machine."""
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
