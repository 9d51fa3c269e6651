"""What the order of the flow-level engine's cases owes to queues and to packets; writes CSV.

    python benchmarks/rounds.py --data FOLDER --out FOLDER

The cases of `validation.py`, with 8 to 128 packets a message instead of 32, fair queues and first
come, first served. FOLDER is as there.
"""

from __future__ import annotations

import argparse
import itertools
from dataclasses import replace
from pathlib import Path

import joblib
import pandas as pd
from validation import Case, flow_cases, judge, simulated

PACKETS = (8, 16, 32, 64, 128)
QUEUES = {"fair": "fair", "first_come": "first come, first served"}


def judged(case: Case) -> dict[str, float]:
    """Return how well the times of a case agree."""
    numbers = sorted(set(case.seen.index))
    told = [simulated(case, number)[0] for number in numbers]
    forecast = pd.Series(told, index=numbers)
    return judge(case.seen.to_numpy(), forecast.loc[case.seen.index].to_numpy())


def row(case: Case, packets: int, arbitration: str) -> dict[str, object]:
    """Return a case with so many packets a message."""
    payload = case.torus.network.payload * 32 // packets
    torus = case.torus.with_network(payload=payload, arbitration=arbitration)
    return {
        "case": case.name,
        "packets_a_message": packets,
        "queues": QUEUES[arbitration],
        **judged(replace(case, torus=torus)),
    }


def main() -> None:
    """Compare all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of the measurements")
    parser.add_argument("--out", type=Path, required=True, help="folder for the CSV file")
    arguments = parser.parse_args()
    choices = itertools.product(flow_cases(arguments.data / "flow-level"), PACKETS, QUEUES)
    rows = joblib.Parallel(n_jobs=-1, prefer="threads")(
        joblib.delayed(row)(*choice) for choice in choices
    )
    table = pd.DataFrame(rows)
    arguments.out.mkdir(parents=True, exist_ok=True)
    table.to_csv(arguments.out / "rounds.csv", index=False)
    print(table.to_string(index=False, float_format="%.3f"))


if __name__ == "__main__":
    main()
