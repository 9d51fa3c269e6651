"""Collectives measured on Fugaku: tables, job scripts and the torus that they ran on."""

import math

import numpy as np
import pytest
from fugaku_tables import write

from studies.fugaku import times as reader
from studies.fugaku.job import fold, read_job
from toruscast.errors import InputError
from toruscast.mapping import machines


def test_reads_times_in_seconds(tmp_path):
    folder = write(tmp_path, "BCAST,2048,default-binomial,1500.0,2x2x2,1\n")
    assert reader.read_times(folder).to_dict("records") == [
        {
            "shape": "2x2x2",
            "collective": "bcast",
            "algorithm": "default-binomial",
            "nbytes": 2048.0,
            "time": pytest.approx(1.5e-6),
        }
    ]


@pytest.mark.parametrize(
    ("rows", "fault"),
    [
        ("BCAST,2048,x,soon,2x2x2,1\n", r"\.csv:2: bad time: found soon"),
        ("BCAST,2048,x,5,2x2x2,1\nBCAST,-4,x,5,2x2x2,1\n", r"\.csv:3: bad nbytes"),
        ("BCAST,2048,x,inf,2x2x2,1\n", "bad time"),
        ("BCAST,2048,x,5,2x2x2,4\n", r"\.csv:2: bad tasks_per_node"),
        ("BCAST,2048,x,5,2x2x2,1\nBCAST,2048,x,5,8,1\n", r"\.csv:3: bad torus: found 8"),
        ("BCAST,2048,x,5,64,1\n", r"\.csv:2: bad torus: found 64"),
        ("BCAST,2048,x,5,,1\n", r"\.csv:2: no shape"),
        ("BCAST,2048,x,5,../2x2,1\n", r"\.csv:2: bad torus"),
        ("BCAST,2048,,5,2x2x2,1\n", r"\.csv:2: no algorithm"),
        (",2048,x,5,2x2x2,1\n", r"\.csv:2: no collective"),
    ],
)
def test_bad_rows(tmp_path, rows, fault):
    with pytest.raises(InputError, match=fault):
        reader.read_times(write(tmp_path, rows))


def test_bad_files(tmp_path):
    with pytest.raises(InputError, match="no measurements"):
        reader.read_times(tmp_path)
    (tmp_path / "b.aggregated_results_summary.csv").write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match="columns missing"):
        reader.read_times(tmp_path)
    (tmp_path / "b.aggregated_results_summary.csv").write_text("")
    with pytest.raises(InputError, match="not a table"):
        reader.read_times(tmp_path)


@pytest.mark.parametrize(
    ("job", "fault"),
    [
        ("", "no torus or rank map"),
        ('"node=2x2x2:torus"\n', "no torus or rank map"),
        ('"node=2x2x2:torus"\n"rank-map-bynode=YX"\n', "does not fit"),
        ('"node=2x2x2:torus"\n"rank-map-bynode=YYX"\n', "does not fit"),
    ],
)
def test_bad_jobs(tmp_path, job, fault):
    path = tmp_path / "job"
    with pytest.raises(InputError, match="not readable"):
        reader.read_rank_map(path)
    path.write_text(job)
    with pytest.raises(InputError, match=fault):
        reader.read_rank_map(path)


def test_ranks_go_through_the_first_letter_fastest(tmp_path):
    path = tmp_path / "job"
    path.write_text('"node=2x3x4:torus"\n"rank-map-bynode=YZX"\n')
    job = read_job(path)
    coords = job.torus.coords[job.mapping.node]
    assert job.grid == (2, 4, 3)
    assert coords[:4].tolist() == [[0, 0, 0], [0, 1, 0], [0, 2, 0], [0, 0, 1]]
    # Grid coordinates of a rank are X, Z, Y.
    assert coords[:, [0, 2, 1]].tolist() == np.indices(job.grid).reshape(3, -1).T.tolist()
    assert job.torus.wrap == (False, True, True)


@pytest.mark.parametrize("shape", [(64, 64), (32, 256), (6, 16), (16, 6), (5, 7), (2, 12)])
def test_a_torus_of_two_dimensions_folds_into_six(shape):
    coords, sizes = fold(shape)
    assert sizes[3:] == (2, 3, 2)
    assert ((coords >= 0) & (coords < sizes)).all()
    assert len(np.unique(coords, axis=0)) == math.prod(shape) == len(coords)
    torus = machines.tofu_d(sizes, wrap=False)
    node = torus.node(coords).reshape(shape)
    for axis in (0, 1):
        hops = torus.distance(node.ravel(), np.roll(node, -1, axis).ravel()).reshape(shape)
        last = hops.take(-1, axis)
        assert (np.delete(hops, -1, axis) == 1).all()
        # A ring of an odd length does not close in a mesh.
        assert (last == 1).all() if shape[axis] % 2 == 0 else (last <= 2).all()
