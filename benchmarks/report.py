"""Write `docs/studies/measurements.md`, and the tables of three other pages, from CSV files.

python benchmarks/report.py benchmarks/results docs
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pandas as pd
from bars import missed

from toruscast.report import markdown

TEXT = """# Measurements

Written by `make bench`; the raw figures are in `benchmarks/results`. Machine: {cpu}, {cores} cores;
Python {python}, numpy {numpy}, numba {numba}.

RCC is the share of pairs of mappings that are put in the right order. Errors, regrets and coverages
are shares: 0.03 is 3 %.

## Forecasts of the captured applications

84 candidate mappings of each application, all simulated, and six forecasts of their times
(`benchmarks/forecast.py`). Three learn nothing: the *lower bound*, the *release bound*, which knows
when messages can come to links, and the *sketch*, a simulation with packets four times as long
(longer where messages of 320 packets and more prevail). Two are models
trained on 168 other mappings: *level 1* with level-1 features alone, *trained* with the sketch,
whose time it corrects, as `toruscast rank` does. *Default* is the model that is shipped, which
never saw the application. Regret is how much longer the mapping predicted best takes than the
fastest; coverage, the share of times within the 90 % interval. Where all candidates take nearly the
same time, as on tpu_v4, RCC is mostly of mappings whose times differ by less than matters.

{forecast}

## Buffer depth

The 84 candidates of `make rank` simulated at several buffer depths. RCC with these times of: the
lower bound; the sketch; the same machine with 41 ns instead of 40 ns a hop: an RCC below 1 here is
order that a negligible change destroys. Last, the median of time over lower bound.

{buffers}

## Coarser packets

Time with coarser packets over time with real ones, and the RCC between the two: of 16 mappings of
512 tasks, one a node, in dimension order; and of 8 with 16 tasks a node and messages of 4 MB under
adaptive routing, merged as in the stored samples of the experiments.

{coarsening}

With `error=0.03` packets are halved until the time changes little, as
[simulator-cost.md](../reference/simulator-cost.md) says. The mappings are those of eight seeds, of
512 tasks on 8x8x8 and of 64 on 4x4x4. *Merged* counts those whose packets are still merged in the
end; the errors are what is left against real packets; the cost is processor time, 1 with real
packets.

{error_targets}

## Messages that flow

`simulate_flows` against real packets, of the mappings of two of these seeds, 512 tasks on 8x8x8,
with more or less room behind the links (with fair queues, `feeding="packets"` and
`fifo_rule="first_free"` too). The RCC between the two, that of the lower bound for comparison, the
median of flowing over packets' time, seconds of processor time a mapping, and the cost, 1 with real
packets.

{flows}

## All-to-all

Every task to every other, adaptive routing and long messages (`benchmarks/bisection.py`). *Busy* is
the share of the time that a dimension's links send, *buffered* the packets behind each, on average.
On 8x8x16 the long dimension's packets fill the buffers that all share. With tasks on nodes in
order, all send to the same distance at the same time, and it takes longer: Blue Gene's all-to-all
shuffled its destinations for that reason.

{bisection}

## Independent engines and measured times

`benchmarks/validation.py` compares the simulator with times that are not part of the repository:
completion cycles of a flit-level engine, times of MPI programs in a flow-level engine, and times
measured on an emulated 4x4x4 torus. Every constant is read off the engine's description or
source, but the packets of the flow-level cases, which that engine has not, and the two datelines of
the flit-level ones, which can have one or two.

RCC is over pairs with different times (equal forecasts count half), and over those more than 5 %
apart. The factor is the median of the engine's or measured times over the simulated ones, the
median error what is left after it. Seconds are processor time; *times less* is by how much that is
less than the other engine's. For comparison, *busiest link* is the RCC of the bytes of that link
alone. Last, the share of links whose simulated bytes are within 1 % of those counted, but in
samples in which something was sent again, whose times are left out too.

{validation_summary}

The same of messages that flow (`simulate_flows`): no packets, but shares of the links.
That is the flow-level engine's own kind of model.

{validation_flows}

## Rounds of the flow-level engine

Its cases with other packets than the 32 a message above, in fair queues and first come, first
served (`benchmarks/rounds.py`). 32 is a choice: with 8, short rounds fall below the bar of .90.

{rounds}

## Cost

Processor seconds of one core, and for the simulator the most memory that the process, Python
included, has taken so far. A periodic 15-point halo under a random mapping, 16 tasks a node; 16
packets a message in the packet simulator, 1,024 where messages flow. The peers, other ways to the
same result, run in the same process.

{kernels}
"""

# By CSV file; columns that are not named keep their name.
HEADINGS = {
    "forecast": {
        "spread": "slowest / fastest",
        "lower_bound": "RCC, lower bound",
        "release_bound": "RCC, release bound",
        "sketch_alone": "RCC, sketch",
        "level_1": "RCC, level 1",
        "trained": "RCC, trained",
        "trained_r2": "R^2, trained",
        "trained_regret": "regret, trained",
        "trained_coverage": "coverage, trained",
        "default": "RCC, default",
        "default_r2": "R^2, default",
        "default_regret": "regret, default",
        "default_coverage": "coverage, default",
    },
    "buffers": {
        "buffer_packets": "buffer, packets",
        "rcc_lower_bound": "RCC, lower bound",
        "rcc_sketch": "RCC, sketch",
        "rcc_hop_of_41_ns": "RCC, 41 ns a hop",
        "median_slowdown": "median time / lower bound",
    },
    "coarsening": {
        "bytes": "bytes a message",
        "coarsening": "packets in one",
        "median_ratio": "median ratio",
        "least_ratio": "least ratio",
        "largest_ratio": "largest ratio",
        "rcc": "RCC",
    },
    "error-targets": {
        "bytes": "bytes a message",
        "buffer_packets": "buffer, packets",
        "median_error": "median error",
        "largest_error": "largest error",
        "rcc": "RCC",
    },
    "flows": {
        "bytes": "bytes a message",
        "room": "room behind a link",
        "rcc": "RCC",
        "rcc_lower_bound": "RCC, lower bound",
        "median_ratio": "median ratio",
        "seconds": "seconds a mapping",
    },
    "validation-summary": {
        "rcc": "RCC",
        "rcc_5_percent_apart": "RCC, over 5 % apart",
        "factor": "factor, theirs / simulated",
        "median_error": "median error",
        "seconds_a_mapping": "seconds a mapping",
        "times_less": "times less",
        "rcc_max_link_bytes": "RCC, busiest link",
        "links_within_1_percent": "links within 1 %",
    },
    "validation-flows": {
        "rcc": "RCC",
        "rcc_5_percent_apart": "RCC, over 5 % apart",
        "factor": "factor, theirs / simulated",
        "median_error": "median error",
        "seconds_a_mapping": "seconds a mapping",
    },
    "rounds": {
        "packets_a_message": "packets a message",
        "rcc": "RCC",
        "rcc_5_percent_apart": "RCC, over 5 % apart",
        "factor": "factor, theirs / simulated",
        "median_error": "median error",
    },
    "kernels": {
        "count": "units",
        "per_second": "units a second",
        "peak_gb": "peak memory, GB",
    },
    "bisection": {
        "packets_a_message": "packets a message",
        "packet_hops": "packet-hops",
        "reached": "share of the bound",
        **{f"busy_{d}": f"busy, dimension {d}" for d in range(3)},
        **{f"buffered_{d}": f"buffered, dimension {d}" for d in range(3)},
    },
    "cachegrind": {
        "first_level_misses": "first-level misses",
        "last_level_misses": "last-level misses",
        "mispredicted": "mispredicted branches",
        "instructions_a_cycle": "instructions a cycle",
        "cycle_ns": "ns a cycle",
        "memory_jump_ns": "ns a jump in memory",
    },
    "composition": {
        "composed": "composed, microseconds",
        "measured": "measured, microseconds",
        "error": "error, %",
        "median_error": "median error, %",
        "largest_error": "largest error, %",
    },
}
MEASUREMENTS = (
    "forecast",
    "buffers",
    "coarsening",
    "error-targets",
    "flows",
    "bisection",
    "validation-summary",
    "validation-flows",
    "rounds",
    "kernels",
)


def table(results: Path, name: str, columns: int | None = None) -> str:
    """Return the first columns of a CSV file, all if not given, as a table with headings."""
    values = pd.read_csv(results / f"{name}.csv").iloc[:, :columns]
    return markdown.table(values.rename(columns=HEADINGS[name]))


def fill(page: Path, contents: dict[str, str]) -> None:
    """Put texts between their marks of a page."""
    text = page.read_text()
    for name, content in contents.items():
        mark = rf"(<!-- {name}: [^\n]* -->\n).*?(<!-- end -->)"
        text, found = re.subn(
            mark, lambda m, new=content: f"{m[1]}\n{new}\n\n{m[2]}", text, flags=re.S
        )
        if found != 1:
            raise ValueError(f"{page}: found {found} marks of {name}, expected one")
    page.write_text(text)


def main(results: str, docs: str) -> None:
    """Fill in the pages."""
    folder, pages = Path(results), Path(docs)
    fill(pages / "reference/simulator.md", {"missed": markdown.table(missed(folder))})
    for page, name in (
        ("reference/simulator-cost", "cachegrind"),
        ("scaling/composition", "composition"),
    ):
        fill(pages / f"{page}.md", {name: table(folder, name)})
    # Behind its first columns kernels.csv describes the machine.
    tables = {name: table(folder, name, 7 if name == "kernels" else None) for name in MEASUREMENTS}
    machine = pd.read_csv(folder / "kernels.csv").iloc[0]
    fields = {key: machine[key] for key in ("cpu", "cores", "python", "numpy", "numba")}
    texts = {name.replace("-", "_"): text for name, text in tables.items()}
    (pages / "studies/measurements.md").write_text(TEXT.format(**fields, **texts))


if __name__ == "__main__":
    main(*sys.argv[1:])
