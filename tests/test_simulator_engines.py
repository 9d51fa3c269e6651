"""The packet simulator against independent engines and measured times, where they are at hand."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from toruscast.features import simulate

ROOT = Path(__file__).parents[1]
DATA = ROOT.parent / "shared" / "data"

spec = importlib.util.spec_from_file_location("validation", ROOT / "benchmarks" / "validation.py")
validation = importlib.util.module_from_spec(spec)


@pytest.fixture(scope="module")
def case():
    sys.modules["validation"] = validation  # where its dataclasses look for their annotations
    spec.loader.exec_module(validation)

    def find(source, name):
        if not (DATA / source).is_dir():
            pytest.skip(f"the measurements of {source} are not there")
        cases = validation.READERS[source](DATA / source)
        return next(case for case in cases if case.name == name)

    return find


# Source, case, and the least shares of pairs in order: of all, and of those more than 5 % apart.
@pytest.mark.parametrize(
    ("source", "name", "rcc", "apart"),
    [
        ("emulated-torus", "halo2d 32768 B", 0.90, 0.97),
        ("emulated-torus", "halo2d 8192 B", 0.90, 0.97),
        ("emulated-torus", "suba2a8 8192 B", 0.84, 0.90),
        ("flit-level", "halo2d5_16x32 2048 B dor", 0.92, 0.95),
        ("flit-level", "halo2d5_32x32 2048 B dor", 0.92, 0.95),
        ("flow-level", "halo2d 4194304 B", 0.94, 0.97),
    ],
)
def test_order_of_times(case, source, name, rcc, apart):
    _, summary = validation.compare(case(source, name))
    assert summary["rcc"] >= rcc
    assert summary["rcc_5_percent_apart"] >= apart


def test_the_order_is_better_than_that_of_the_busiest_link(case):
    _, summary = validation.compare(case("flit-level", "halo2d5_16x32 2048 B dor"))
    assert summary["rcc"] > summary["rcc_max_link_bytes"] + 0.02


def test_busiest_link_of_the_flit_level_engine(case):
    # Where no message goes exactly half way round a ring, nothing in its routes is random.
    found = case("flit-level", "halo2d5_16x32 2048 B dor")
    coords, wrong, compared = found.torus.coords, [], 0
    for number, mapping in found.mappings.items():
        if number not in found.busiest.index:
            continue
        gap = np.abs(
            coords[mapping.node[found.workload.src]] - coords[mapping.node[found.workload.dst]]
        )
        if (2 * gap == np.array(found.torus.shape)).any():
            continue
        compared += 1
        result = simulate(found.workload, found.torus, mapping)
        seen = np.atleast_1d(found.busiest.loc[number])
        wrong += [number for flits in seen if result.wire_bytes.max() != flits]
    assert compared >= 3
    assert not wrong


def test_bytes_of_every_link_of_the_emulated_torus(case):
    # Beside the messages the counters hold acknowledgements, about 1.7 % of the bytes.
    # Links that no route takes carried nothing.
    found = case("emulated-torus", "halo2d 32768 B")
    ratios = []
    for run in ("A", "C"):
        with np.load(DATA / "emulated-torus" / f"counters_{run}.npz", allow_pickle=False) as file:
            samples = (file["pattern"] == "halo2d") & (file["msg_bytes"] == 32768)
            counted = dict(zip(file["mapping_id"][samples], file["counters"][samples], strict=True))
        for number, counters in counted.items():
            wire_bytes = simulate(found.workload, found.torus, found.mappings[number]).wire_bytes
            seen = counters[:, 0]
            assert (seen[wire_bytes == 0] == 0).all()
            ratios.append(seen[wire_bytes > 0] / wire_bytes[wire_bytes > 0])
    assert len(ratios) > 50
    off = np.abs(np.concatenate(ratios) / 1.017 - 1)
    assert (off < 0.01).mean() > 0.98
    assert off.max() < 0.04
