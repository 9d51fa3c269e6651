"""Measured collectives of Fugaku."""

from ..study import Study
from .ranked import FILES, run

STUDY = Study(
    name="fugaku",
    title="Collective algorithms on Fugaku, ranked with constants from eight nodes",
    text=(
        "Which algorithm of a collective is fastest on a large torus, if times are known only "
        "for a small one? Fugaku has the network Tofu-D. Each node runs one task."
    ),
    needs="data",
    parts={"Ranking of the algorithms": run},
    sources=(
        "github.com/HLC-Lab/pico at 413bc5d0f98f8c45a99926cb4b68d22824d968ab, results/fugaku "
        "(aggregated_results_summary.csv of each archive; MIT)",
        "github.com/HLC-Lab/bine_trees_fugaku at 0755a2eb448282d5ebfd09afbbcd9a682f3dc152, jobs, "
        "and at a61e2dc1a217857698471a76d8dfebe6036249fa, bench (segments asked of the trees; MIT)",
    ),
    files=FILES,
)
