"""Write `docs/measurements.md`, and the tables of three other pages, from CSV files.

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
[simulator-cost.md](simulator-cost.md) says: the error that is left, on mappings of two seeds, of
512 tasks on 8x8x8 and of 64 on 4x4x4; how many of them have merged packets in the end; and the
cost, that of real packets being 1.

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


def markdown(table: pd.DataFrame) -> str:
    """Return a table with its numbers in four digits, whole ones in full; NaN stays empty."""
    texts = table.map(
        lambda v: format(v, ".4g" if v % 1 else ".0f") if isinstance(v, float) else str(v)
    ).mask(table.isna(), "")
    rows = [list(table.columns), ["---"] * len(table.columns), *texts.to_numpy().tolist()]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def fill(page: Path, name: str, table: pd.DataFrame) -> None:
    """Put a table between its marks of a page."""
    mark = rf"(<!-- {name}: [^\n]* -->\n).*?(<!-- end -->)"
    text, found = re.subn(
        mark, lambda m: f"{m[1]}\n{markdown(table)}\n\n{m[2]}", page.read_text(), flags=re.S
    )
    if found != 1:
        raise ValueError(f"{page}: found {found} marks of {name}, expected one")
    page.write_text(text)


def main(results: str, docs: str) -> None:
    """Fill in the pages."""
    folder, pages = Path(results), Path(docs)
    fill(pages / "simulator.md", "missed", missed(folder))
    for page, name in (
        ("simulator", "bisection"), ("simulator-cost", "cachegrind"), ("composition", "composition")
    ):  # fmt: skip
        fill(pages / f"{page}.md", name, pd.read_csv(folder / f"{name}.csv"))
    names = (
        "forecast", "buffers", "coarsening", "error-targets", "validation-summary", "kernels"
    )  # fmt: skip
    tables = {name.replace("-", "_"): pd.read_csv(folder / f"{name}.csv") for name in names}
    machine = tables["kernels"].iloc[0]
    tables["kernels"] = tables["kernels"].iloc[:, :7]
    texts = {name: markdown(table) for name, table in tables.items()}
    fields = {key: machine[key] for key in ("cpu", "cores", "python", "numpy", "numba")}
    (pages / "measurements.md").write_text(TEXT.format(**fields, **texts))


if __name__ == "__main__":
    main(*sys.argv[1:])
