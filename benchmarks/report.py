"""Write `docs/measurements.md`, and the tables of two other pages, from CSV files.

python benchmarks/report.py benchmarks/results docs
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pandas as pd
from bars import missed

TEXT = """# Measurements

Written by `make bench`; the raw figures are in `benchmarks/results`. Machine: {cpu}, {cores} cores;
Python {python}, numpy {numpy}, numba {numba}.

## Forecasts of the captured applications

84 candidate mappings each, all simulated (`benchmarks/forecast.py`). RCC with the simulated times:
the lower bound and the sketch, unlearned; models trained on 168 other mappings, of level-1 features
alone and with the sketch (*trained*, what `toruscast rank` does); the default model, which never
saw the application. Then R^2, regret of the mapping predicted best, and the share of times in the
90 % interval.

{forecast}

## Buffer depth

The 84 candidates of `make rank` simulated at several buffer depths. RCC with these times of: the
lower bound; the sketch (packets four times as long); the same machine with a hop of 41 in place of
40 ns, which shows how much of the order is chance. Last, the median time over its lower bound.

{buffers}

## Coarser packets

Time of coarse over that of real packets: median, least and largest of 16 mappings on 4x4x4x4x2, 512
tasks; and the RCC of the two.

{coarsening}

With `error=0.03` packets are halved until the time changes little, as
[simulator.md](simulator.md) says: the error that is left, on mappings of two seeds, of 512 tasks on
8x8x8 and of 64 on 4x4x4; how many of them have merged packets in the end; and the cost, that of
real packets being 1.

{error_targets}

## Independent engines and measured times

`benchmarks/validation.py` on measurements that are not part of the repository: a flit-level engine
(completion cycles), a flow-level engine running MPI programs, and times measured on an emulated
4x4x4 torus. Every constant is read off the engine's description. RCC over all pairs and over pairs
more than 5 % apart (equal times left out, equal forecasts half), the common factor seen /
simulated, the median error after it, processor seconds a mapping, and how many times less
than the other engine's.

{validation_summary}

## Cost

Processor seconds of one core, and for the simulator the most memory that the process, Python
included, has taken. A periodic 15-point halo under a random mapping, 16 tasks a node; 16 packets a
message in the simulator. The peers run in the same process.

{kernels}
"""

COARSENING = """With `error=0.03`, mappings of two seeds, of 512 tasks on 8x8x8 and of 64 on 4x4x4.
*Merged* counts the mappings that did not end at real packets; real packets cost 1.

"""


def markdown(table: pd.DataFrame) -> str:
    """Return a table with its numbers in four digits; what is missing stays empty."""
    texts = table.map(lambda v: f"{v:.4g}" if isinstance(v, float) and v % 1 else str(v))
    texts = texts.mask(table.isna(), "")
    rows = [list(table.columns), ["---"] * len(table.columns), *texts.to_numpy().tolist()]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def simulator_tables(results: Path) -> dict[str, str]:
    """Return the tables of the simulator's page by name."""
    targets = pd.read_csv(results / "error-targets.csv")
    targets["bytes"] = targets["bytes"].astype(int)
    cost = pd.read_csv(results / "kernels.csv").iloc[:, :7]
    tables = {
        "missed": markdown(missed(results)),
        "coarsening": COARSENING + markdown(targets),
        "speed": markdown(cost[cost["case"].str.startswith("simulate")]),
    }
    if (results / "cachegrind.csv").exists():
        tables["speed"] += "\n\n" + markdown(pd.read_csv(results / "cachegrind.csv"))
    if (results / "bisection.csv").exists():
        tables["bisection"] = markdown(pd.read_csv(results / "bisection.csv").round(3))
    return tables


def fill(page: Path, tables: dict[str, str]) -> None:
    """Put tables between the marks of a page."""
    text = page.read_text()
    for name, table in tables.items():
        mark = rf"(<!-- {name}: [^\n]* -->\n).*?(<!-- end -->)"
        text, found = re.subn(
            mark, lambda m, table=table: f"{m[1]}\n{table}\n\n{m[2]}", text, flags=re.S
        )
        if found != 1:
            raise ValueError(f"{page}: found {found} marks of {name}, expected one")
    page.write_text(text)


def main(results: str, docs: str) -> None:
    """Fill in the pages."""
    fill(Path(docs) / "simulator.md", simulator_tables(Path(results)))
    if (composed := Path(results) / "composition.csv").exists():
        fill(Path(docs) / "composition.md", {"measured": markdown(pd.read_csv(composed))})
    names = (
        "forecast", "buffers", "coarsening", "error-targets", "validation-summary", "kernels"
    )  # fmt: skip
    tables = {name.replace("-", "_"): pd.read_csv(Path(results) / f"{name}.csv") for name in names}
    machine = tables["kernels"].iloc[0]
    tables["kernels"] = tables["kernels"].iloc[:, :7]
    tables["coarsening"]["bytes"] = tables["coarsening"]["bytes"].astype(int)
    texts = {name: markdown(table) for name, table in tables.items()}
    fields = {key: machine[key] for key in ("cpu", "cores", "python", "numpy", "numba")}
    (Path(docs) / "measurements.md").write_text(TEXT.format(**fields, **texts))


if __name__ == "__main__":
    main(*sys.argv[1:])
