"""Collectives measured on Fugaku: what the bine library does beside its messages."""

import numpy as np
import pandas as pd
import pytest

from studies.fugaku.library import of_library, sums, waits_and_posts


def calls(codes, **columns):
    """Rows of 64 tasks on two dimensions, three rounds on three ports."""
    table = pd.DataFrame({"code": list(codes), "nbytes": 2048.0, "rounds": 3, "ports": 3})
    table["layer"] = [
        code.rpartition("-")[2] if code.endswith(("utofu", "mpi")) else "fjmpi" for code in codes
    ]
    table = table.assign(n_tasks=64, ndim=2, segment=0, in_turn=False, messages=9)
    return table.assign(**columns).set_index("code", drop=False)


def test_calls_of_the_bine_library_do_what_its_source_has():
    codes = {
        "bcast BINE-BINOMIAL_TREE-utofu": {"addresses": 16 * 64 * 3},
        "bcast BINE-BINOMIAL_TREE_TMPBUF-utofu": {},
        "bcast BINE-SCATTER_ALLGATHER-utofu": {"addresses": 16 * 64 * 3, "surplus": 32 * 512},
        "reduce BINE-BINOMIAL_TREE-utofu": {"notices": 3},
        "reduce BINE-REDUCE_SCATTER_GATHER-utofu": {"addresses": 16 * 64 * 3, "entries": 192},
        "allreduce RECDOUB-L-utofu": {"notices": 3, "entries": 192},
        "allreduce BINE-B_CONT-utofu": {"entries": 192, "timers": 9, "swaps": 3},
        "allreduce RING-B_CONT-utofu": {"addresses": 16 * 64 * 3, "notices": 3},
        "gather BINE-BINOMIAL_TREE_CONT_PERMUTE-DEC-utofu": {
            "entries": 192,
            "blocks": 64,
            "near": 64 * 2048 / 64 / 3 / 256,
        },
        "gather BINE-BINOMIAL_TREE_CONT_PERMUTE-mpi": {"entries": 192},
        "allgather BINE-VEC_DOUBLING_CONT_PERMUTE-mpi": {
            "entries": 192,
            "blocks": 64,
            "divisions": 64,
            "near": 64 * 2048 / 64 / 3 / 256,
        },
        "allgather BINE-VEC_DOUBLING_CONT_SEND-utofu": {"swaps": 3},
        "alltoall BINE-LOG-utofu": {
            "notices": 3,
            "blocks": 64 * 4,
            "near": 64 * 2048 / 64 / 3 / 256,
        },
        "alltoall default-modified-bruck": {"blocks": 64 * 4},
        "bcast default-binomial": {},
    }
    table = calls(codes)
    found = pd.DataFrame(of_library(table), index=table.index)
    for code, wanted in codes.items():
        row = found.loc[code]
        assert row[row != 0].to_dict() == pytest.approx(wanted), code
    assert of_library(table.assign(nbytes=1024.0))["notices"].sum() == 3 * 2
    # Twice as many bytes as the level 2 cache holds.
    far = pd.DataFrame(of_library(table.assign(nbytes=2.0**23)), index=table.index)
    assert far["near"].sum() == 0
    assert far["far"].max() == 64


def test_arrays_a_way_apart_evict_each_other():
    codes = ["scatter BINE-BINOMIAL_TREE_CONT_PERMUTE-INC-utofu", "bcast BINE-BINOMIAL_TREE-utofu"]
    found = {
        (n, ports): of_library(calls(codes, n_tasks=n, ports=ports))["evictions"].tolist()
        for n in (64, 4096)
        for ports in (2, 4, 6)
    }
    assert found[64, 6] == found[4096, 2] == [0, 0]
    # Two arrays of addresses a port, one of blocks; the cache has four ways.
    assert found[4096, 4] == [0, 4096 * 8]
    assert found[4096, 6] == [4096 * 6, 4096 * 12]


def test_waits_for_segments_and_blocks():
    codes = {
        "bcast BINE-BINOMIAL_TREE-utofu": (4, 0, 0),
        "reduce BINE-BINOMIAL_TREE-utofu": (12, 0, 0),
        "allreduce BINE-B_CONT-utofu": (4, 0, 0),
        "allreduce BINE-L-utofu": (0, 0, 0),
        "allgather BINE-VEC_DOUBLING_BLOCKS-utofu": (3 * 63, 0, 0),
        "bcast BINE-SCATTER_ALLGATHER-utofu": (0, 63 - 1.5, 0),
        "bcast default-binary-tree": (0, 0, 7),
    }
    in_turn = [code.startswith("reduce ") for code in codes]
    rounds = np.where(in_turn, 9, 3)
    messages = np.where([code.startswith("bcast default") for code in codes], 16, 9)
    table = calls(codes, segment=512, in_turn=in_turn, rounds=rounds, messages=messages)
    found = pd.DataFrame(waits_and_posts(table))
    assert list(found.itertuples(index=False, name=None)) == list(codes.values())


def test_all_cores_share_long_sums_outside_of_threads():
    halves = ((1, 1 / 2), (1, 1 / 4), (1, 1 / 8))
    whole = ((3, 1.0),)
    table = calls(
        ["reduce_scatter BINE-VEC_HALVING_CONT_PERMUTE-utofu"] * 3
        + ["reduce BINE-BINOMIAL_TREE-utofu"] * 2
        + ["reduce default-binary"],
        nbytes=32768.0,
        ports=[1, 3, 1, 1, 1, 1],
        segment=[0, 0, 0, 0, 8192, 0],
        in_turn=[False, False, False, True, True, False],
        reduced=[halves, halves, halves, whole, whole, whole],
    )
    table["nbytes"] = [32768.0, 32768.0, 8192.0, 32768.0, 32768.0, 32768.0]
    found = sums(table)
    assert found["shared"].tolist() == [24576, 0, 0, 98304, 98304, 0]
    assert found["forks"].tolist() == [2, 0, 0, 3, 12, 0]
    assert found["chunks"].tolist() == [1, 1, 1, 1, 4, 1]
