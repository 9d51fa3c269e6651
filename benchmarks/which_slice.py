"""Rank slices with the same number of chips for public models; writes which_slice.csv.

    python benchmarks/which_slice.py --out FOLDER

The traffic of a step follows from the published sizes of a model. Along `fsdp`, weights and
gradients of two bytes are gathered twice and reduced once per layer. Along `tensor`, the
activations of all tokens of a group are gathered and reduced four times per layer, forwards and
backwards. Along `expert`, each token is sent to two experts and back, forwards and backwards.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from toruscast._mesh import which_slice
from toruscast._mesh.traffic import MeshTraffic

# Tokens of the one sequence on each chip.
TOKENS = 8192
MACHINES = ("tpu_v4", "tpu_v5p", "tpu_v5e", "tpu_v6e", "trainium2")


@dataclass(frozen=True)
class Model:
    """Published sizes of a model, and a mesh."""

    name: str
    layers: int
    width: int
    hidden: int
    heads: int
    kv_heads: int
    experts: int
    chips: int
    axes: dict[str, int]

    @property
    def layer_bytes(self) -> float:
        """Bytes of the weights of a layer, two per weight."""
        attention = 2 * self.width**2 * (1 + self.kv_heads / self.heads)
        return 2 * (attention + 3 * self.width * self.hidden * self.experts)

    def traffic(self) -> list[MeshTraffic]:
        """The traffic of a step along each axis."""
        tensor, experts = self.axes.get("tensor", 1), self.axes.get("expert", 1)
        weights = self.layer_bytes / tensor / experts
        sends = [
            MeshTraffic("allgather", weights, ("fsdp",), runs=2 * self.layers),
            MeshTraffic("reduce_scatter", weights, ("fsdp",), runs=self.layers),
        ]
        activations = 2.0 * TOKENS * tensor * self.width
        if tensor > 1:
            for kind in ("allgather", "reduce_scatter"):
                sends.append(MeshTraffic(kind, activations, ("tensor",), runs=4 * self.layers))
        if experts > 1:
            sends.append(
                MeshTraffic("alltoall", 2 * activations, ("expert",), runs=4 * self.layers)
            )
        return sends


MODELS = (
    Model("Mixtral 8x7B", 32, 4096, 14336, 32, 8, 8, 64, {"fsdp": 8, "expert": 8}),
    Model("Llama 3.1 70B", 80, 8192, 28672, 64, 8, 1, 128, {"fsdp": 32, "tensor": 4}),
    Model("Llama 3.1 405B", 126, 16384, 53248, 128, 8, 1, 256, {"fsdp": 32, "tensor": 8}),
)


def rows(model: Model) -> pd.DataFrame:
    """Return the slices for a model."""
    found = which_slice(model.chips, model.axes, model.traffic(), MACHINES)
    table = found.table.drop(columns="layout").assign(layout=found.table["layout"])
    mesh = ", ".join(f"{name} {size}" for name, size in model.axes.items())
    return table.assign(model=model.name, chips=model.chips, mesh=mesh)


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    folder = parser.parse_args().out
    folder.mkdir(parents=True, exist_ok=True)
    found = []
    for model in MODELS:
        found.append(rows(model))
        print(found[-1].to_string(), flush=True)
    table = pd.concat(found)[["model", "chips", "mesh", "slice", "time", "source", "layout"]]
    table.to_csv(folder / "which_slice.csv", index=False, float_format="%.6g")


if __name__ == "__main__":
    main()
