"""Collectives measured on Fugaku: reader, footprints, model, ranking."""

import dataclasses
import math
import shutil

import numpy as np
import pandas as pd
import pytest

from toruscast.datasets.public import fugaku as reader
from toruscast.features import time_bounds
from toruscast.mapping import InputError, TaskMapping, Torus
from toruscast.mapping.collectives import names, schedule
from toruscast.training.experiments import EXPERIMENTS, Inputs
from toruscast.training.experiments import fugaku_model as model
from toruscast.training.experiments.fugaku_algorithms import parse
from toruscast.training.experiments.fugaku_chain import message_chain
from toruscast.training.experiments.fugaku_footprint import footprint, simulated_bytes
from toruscast.training.experiments.fugaku_job import fold, read_job
from toruscast.training.experiments.fugaku_ranking import corrections, count_pairs, rank_groups
from toruscast.training.experiments.fugaku_table import of_library, tabulate
from toruscast.training.metrics import rcc

HEADER = "collective_type,buffer_size,algo_name,median,nnodes,tasks_per_node\n"
JOB = '#PJM -L  "node=2x2x2:torus"\n#PJM --mpi  "rank-map-bynode=YZX"\n'


@pytest.fixture(scope="module")
def measured(shared_data):
    folder = shared_data / "pico-fugaku"
    if not folder.is_dir():
        pytest.skip("measurements of Fugaku not found")
    return folder


@pytest.fixture(scope="module")
def part(measured, tmp_path_factory):
    """Three collectives and three sizes on the two small tori."""
    folder = tmp_path_factory.mktemp("data") / "pico-fugaku"
    shutil.copytree(measured / "jobs", folder / "jobs")
    for path in measured.glob("*.csv"):
        raw = pd.read_csv(path)
        kept = raw[
            raw["collective_type"].isin(["ALLREDUCE", "ALLGATHER", "BCAST"])
            & raw["buffer_size"].isin([2048, 8388608, 67108864])
            & (raw["nnodes"] != "64x64")
        ]
        if len(kept):
            kept.to_csv(folder / path.name, index=False)
    return folder


def write(folder, rows, job=JOB):
    folder.mkdir(exist_ok=True)
    (folder / "jobs").mkdir(exist_ok=True)
    (folder / "jobs" / "2x2x2").write_text(job)
    (folder / "a.aggregated_results_summary.csv").write_text(HEADER + rows)
    return folder


def test_reads_times_in_seconds(tmp_path):
    folder = write(tmp_path, "BCAST,2048,default-binomial,1500.0,2x2x2,1\n")
    assert reader.read_times(folder).to_dict("records") == [
        {
            "shape": "2x2x2", "collective": "bcast", "algorithm": "default-binomial",
            "nbytes": 2048.0, "time": pytest.approx(1.5e-6),
        }
    ]  # fmt: skip


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


@pytest.mark.parametrize("shape", [(64, 64), (32, 256), (6, 16), (16, 6), (5, 7)])
def test_a_torus_of_two_dimensions_folds_into_six(shape):
    coords, sizes = fold(shape)
    assert sizes[3:] == (2, 3, 2)
    assert ((coords >= 0) & (coords < sizes)).all()
    assert len(np.unique(coords, axis=0)) == math.prod(shape) == len(coords)
    by_place = coords.reshape(*shape, 6)
    for axis in (0, 1):
        assert (np.abs(np.diff(by_place, axis=axis)).sum(axis=-1) == 1).all()


def test_far_nodes_of_two_dimensions_are_near_in_six(tmp_path):
    path = tmp_path / "job"
    path.write_text('"node=64x64:torus"\n"rank-map-bynode=YX"\n')
    folded, logical = read_job(path), read_job(path, folded=False)
    assert folded.grid == logical.grid == (64, 64)
    ranks = np.arange(4096)
    far = (ranks + 32) % 4096
    hops = [
        job.torus.distance(job.mapping.node[ranks], job.mapping.node[far])
        for job in (folded, logical)
    ]
    assert hops[0].max() <= 22 < 32 <= hops[1].min()


@pytest.mark.parametrize(
    ("collective", "algorithm", "expected"),
    [
        ("allreduce", "BINE-L-UTOFU-0-6", ("allreduce/bine", "utofu", 6, 0, True)),
        (
            "allreduce", "RECDOUB-B_CONT-UTOFU-65536-3",
            ("allreduce/torus_binary_rabenseifner", "utofu", 3, 65536, True),
        ),
        (
            "gather", "BINE-BINOMIAL_TREE_CONT_PERMUTE-INC-UTOFU-0-1",
            ("gather/bine_near", "utofu", 1, 0, True),
        ),
        (
            "scatter", "BINE-BINOMIAL_TREE_CONT_PERMUTE-MPI-0-1",
            ("scatter/bine_near", "mpi", 1, 0, False),
        ),
        ("alltoall", "BRUCK-LOG-MPI-0-1", ("alltoall/bruck", "mpi", 1, 0, False)),
        ("bcast", "default-trinaryx6", ("bcast/pipelined_trees", "trees", 6, 16384, True)),
        ("reduce_scatter", "default-ring", ("reduce_scatter/ring", "fjmpi", 1, 0, False)),
    ],
)  # fmt: skip
def test_names_stand_for_schedules(collective, algorithm, expected):
    found = parse(collective, algorithm, 2.0**20, 3)
    assert dataclasses.astuple(found)[:1] + dataclasses.astuple(found)[2:6] == expected
    assert found.schedule in names()


@pytest.mark.parametrize(
    "algorithm", ["default-default", "default-rdbc", "BINE-MAGIC-UTOFU-0-1", "BINE", "", "A-B-C-D"]
)
def test_unknown_names_are_left_out(algorithm):
    assert parse("allreduce", algorithm, 4.0, 3) is None


@pytest.mark.parametrize(
    ("collective", "algorithm"),
    [
        ("bcast", "RING-X-UTOFU-0-1"), ("alltoall", "RING-X-UTOFU-0-1"),
        ("allreduce", "RING-X-UTOFU-0-1"), ("allgather", "BRUCK-X-UTOFU-0-1"),
        ("alltoall", "RECDOUB-LOG-UTOFU-0-1"), ("allreduce", "BINE-L-UTOFU-0-8"),
        ("allreduce", "BINE-B_CONT-UTOFU-0-12"), ("allreduce", "BINE-L-UTOFU-0-0"),
        ("scan", "default-linear"),
    ],
)  # fmt: skip
def test_unknown_collectives_and_ports_are_left_out(collective, algorithm):
    assert parse(collective, algorithm, 2.0**20, 3) is None


RUN = [
    ("default-ring", 40), ("default-recursive_doubling", 20), ("BINE-L-UTOFU-0-1", 10),
    ("BINE-L-UTOFU-0-6", 12),
]  # fmt: skip


def rows_of(shape, run=RUN, slower=1.0):
    return "".join(
        f"ALLREDUCE,{nbytes},{name},{slower * (us * 1000 + nbytes / 5)},{shape},1\n"
        for name, us in run
        for nbytes in (2048, 1048576)
    )


def run_on(tmp_path, tables):
    folder = write(tmp_path / "pico-fugaku", tables[0])
    for shape in ("4x4x4", "6x6", "64x64"):
        text = JOB.replace("2x2x2", shape).replace("YZX", "XYZ"[: shape.count("x") + 1])
        (folder / "jobs" / shape).write_text(text)
    for number, rows in enumerate(tables[1:]):
        path = folder / f"b{number}.aggregated_results_summary.csv"
        path.write_text(HEADER + rows)
    return EXPERIMENTS["fugaku"].run(Inputs(data=tmp_path))


def test_what_was_measured_twice_counts_by_the_median(tmp_path):
    both = [rows_of(s, RUN, slower) for s in ("2x2x2", "4x4x4") for slower in (1.0, 3.0)]
    found = run_on(tmp_path, both)
    assert "16 more, of the same again, are merged" in found.text
    times = found.tables["fugaku_times"]
    assert len(times) == 16
    one = times[(times["algorithm"] == "default-ring") & (times["nbytes"] == 2048)]
    assert one["time"].tolist() == pytest.approx([2 * (40e-6 + 2048 / 5 * 1e-9)] * 2)


def test_what_cannot_run_is_left_out_and_counted(tmp_path):
    odd = "".join(
        f"{collective},2048,{name},9000,{shape},1\n"
        for collective, name, shape in (
            ("BCAST", "RING-X-UTOFU-0-1", "4x4x4"), ("ALLGATHER", "BRUCK-X-UTOFU-0-1", "4x4x4"),
            ("ALLREDUCE", "BINE-L-UTOFU-0-8", "4x4x4"), ("ALLREDUCE", "BINE-L-UTOFU-0-1", "6x6"),
            ("ALLREDUCE", "default-recursive_doubling", "6x6"),
        )
    )  # fmt: skip
    rest = "ALLREDUCE,2048,default-ring,9000,6x6,1\nALLREDUCE,2048,default-ring,9000,4x4x4,1\n"
    found = run_on(tmp_path, [rows_of("2x2x2"), odd + rest])
    assert found.tables["fugaku_left_out"]["rows"].sum() == 5
    assert "5 of them have no name known, or cannot run" in found.text
    assert [note[:9] for note in found.notes if "nothing to rank" in note] == [
        "6x6: no t",
        "4x4x4: no",
    ]


@pytest.mark.parametrize(
    ("rows", "fault"),
    [
        ("BCAST,2048,default-default,5,2x2x2,1\n", "no algorithm whose schedule is known"),
        ("BCAST,2048,default-binomial,5,2x2x2,1\n", "nothing to rank"),
    ],
)
def test_tables_without_anything_to_rank(tmp_path, rows, fault):
    with pytest.raises(InputError, match=fault):
        run_on(tmp_path, [rows])


def test_a_job_script_of_another_torus(tmp_path):
    folder = write(tmp_path, rows_of("2x2x2"), JOB.replace("2x2x2", "2x2x4"))
    with pytest.raises(InputError, match=r"job script of another torus: found .*2.*expected 2x2x2"):
        tabulate(folder)


def test_footprint_in_closed_form():
    torus = Torus((4, 4, 4))
    mapping = TaskMapping(np.arange(64), torus)

    def of(name, **options):
        return footprint(schedule(name, 64, 6400.0, (4, 4, 4), **options), torus, mapping)

    # Bucket: neighbours only, a sixth of the vector on each port.
    bucket = of("allgather/bucket", ports=6)
    assert bucket.rounds == 9
    assert bucket.carried == pytest.approx(6400 / 6 * 63 / 64)
    # Bine distances in a ring of four are 1 and -1.
    assert of("allreduce/bine").hops == 6
    assert of("allreduce/bine").added == pytest.approx(6 * 6400)
    assert of("allreduce/bine", ports=3).carried == pytest.approx(2 * 6400)
    # All into one node: half of the nodes lie behind one of its links in the last dimension.
    gather = of("gather/linear")
    assert (gather.rounds, gather.messages) == (1, 63)
    assert gather.carried == pytest.approx(32 * 100)


def test_exchanges_at_once_are_bounded_by_their_total():
    torus = Torus((4, 4), bandwidth=(1.0,))
    mapping = TaskMapping(np.arange(16), torus)
    plan = schedule("alltoall/linear", 16, 1600.0)
    bounds = time_bounds(plan.workload(), torus.with_network(header=0, payload=1), mapping)
    found = footprint(plan, torus, mapping)
    assert found.carried == pytest.approx(max(bounds.link, 1500.0))
    assert (found.rounds, found.messages) == (1, 15)


def test_simulation_lies_between_a_round_and_the_sum_of_the_rounds():
    torus = Torus((4, 4, 4))
    mapping = TaskMapping(np.arange(64), torus)
    for name, ports in (("allreduce/bine", 3), ("bcast/binary", 1), ("allgather/ring", 1)):
        plan = schedule(name, 64, 2.0**26, (4, 4, 4), ports=ports)
        found = simulated_bytes(plan, torus, mapping)
        carried = footprint(plan, torus, mapping).carried
        assert carried / footprint(plan, torus, mapping).rounds < found < 1.05 * carried


def synthetic(rng, rows=240):
    codes = ["a BINE-X-utofu", "b BINE-X-utofu", "c default-y", "d default-z", "e default-t"]
    layers = ["utofu", "utofu", "fjmpi", "fjmpi", "trees"]
    which = rng.integers(5, size=rows)
    rounds = rng.integers(1, 14, size=rows).astype(float)
    table = pd.DataFrame(
        {
            "code": np.array(codes)[which], "layer": np.array(layers)[which],
            "nbytes": 4.0 ** rng.integers(2, 14, size=rows),
            "ports": np.where(which < 2, rng.choice([1, 3, 6], size=rows), 1),
            "rounds": rounds, "hops": rounds, "segment": 0,
            "carried": rng.uniform(0.5, 6, size=rows), "added": rng.choice([0, 1, 3], size=rows),
            "copied": 0.0, "pieces": 0.0, "notices": 0.0, "entries": 0.0, "addresses": 0.0,
            "gathered": 1.0, "gather_rounds": 3.0, "gather_hops": 6.0,
        }
    )  # fmt: skip
    table["messages"] = table["rounds"] * table["ports"] + rng.integers(0, 9, size=rows)
    return table.assign(simulated=table["carried"])


def test_fit_recovers_planted_times():
    table = synthetic(np.random.default_rng(1))
    start = model.fit(table.assign(time=1e-5))
    shared = dict(start.shared) | {"link bandwidth": 5.0, "setup, utofu": 7.0}
    shared |= {"overhead a round, utofu": 3.0, "overhead a round, fjmpi": 2.5}
    planted = dataclasses.replace(
        start, shared=shared, software=dict.fromkeys(start.software, 1.0),
        local=dict.fromkeys(start.local, 1.0),
    )  # fmt: skip
    table["time"] = model.predict(table, planted)
    found = model.fit(table)
    assert found.shared["link bandwidth"] == pytest.approx(5.0, rel=0.02)
    ratio = np.abs(np.log(model.predict(table, found) / table["time"]))
    assert np.median(ratio) < 0.02
    assert set(found.table()["constant"]) == set(found.shared)


def test_what_a_call_does_besides_adds_up():
    table = synthetic(np.random.default_rng(2), 6)
    constants = model.fit(table.assign(time=1e-5))
    plain = model.predict(table, constants)
    entries = model.predict(table.assign(entries=4096 * 4), constants)
    assert entries - plain == pytest.approx(4096 * 4 * model.ENTRY)
    notices = model.predict(table.assign(notices=7), constants)
    word = constants.shared["word that a buffer is free"] * 1e-6
    assert notices - plain == pytest.approx(7 * word)
    # Addresses come by MPI's allgather: rounds, hops and bytes of that, whatever calls for it.
    shared = constants.shared
    addresses = 16.0 * 4096
    length = addresses / 3
    a_round = shared["overhead a round, fjmpi"] + shared["handshake of a long message, fjmpi"] * (
        length / (length + 1e3 * shared["length at half of the handshake, fjmpi"])
    )
    gather = 1e-6 * (shared["setup, fjmpi"] + 3 * a_round) + 6 * model.HOP_LATENCY
    gather += addresses / (shared["link bandwidth"] * 1e9)
    found = model.predict(table.assign(addresses=addresses), constants)
    assert found - plain == pytest.approx(gather)


def test_threads_cost_once_a_call_not_once_a_round():
    table = synthetic(np.random.default_rng(3))
    constants = model.fit(table.assign(time=1e-5))
    one = table[table["layer"] == "utofu"].iloc[:1].assign(carried=0.0, simulated=0.0, pieces=0.0)
    times = {
        (ports, rounds): model.predict(
            one.assign(ports=ports, rounds=rounds, messages=ports * rounds), constants
        ).item()
        for ports in (1, 6)
        for rounds in (3, 12)
    }
    assert times[6, 3] > times[1, 3]
    assert times[6, 12] - times[6, 3] == pytest.approx(times[1, 12] - times[1, 3])


def chain_one_by_one(plan):
    """Messages on the longest chain, message by message."""
    done = [0.0] * plan.n_tasks
    for times, steps in plan.rounds():
        for _ in range(times):
            sent, arrivals = list(done), []
            for step in steps:
                for src, dst in zip(step.src.tolist(), step.dst.tolist(), strict=True):
                    sent[src] += step.pieces
                    arrivals.append((sent[src], dst, step.pieces))
            after = list(done)
            for when, dst, pieces in sorted(arrivals):
                after[dst] = max(after[dst] + pieces, when)
            done = [max(a, b) for a, b in zip(after, sent, strict=True)]
    return max(done)


@pytest.mark.parametrize("name", names())
def test_message_chain_is_that_of_messages_one_by_one(name):
    grids = [(8,), (4, 4), (2, 2, 2)]
    for grid in grids:
        for ports in (1, 3):
            try:
                plan = schedule(name, int(np.prod(grid)), 64.0, grid, ports=ports, segment=20)
            except InputError:
                continue  # not that number of ports or trees
            if not plan.at_once:
                assert message_chain(plan) == pytest.approx(chain_one_by_one(plan))


def test_message_chains_in_closed_form():
    def of(name, n):
        return message_chain(schedule(name, n, 1.0))

    for n in (2, 8, 64):
        # The k-th child of a binomial tree comes k messages after its parent.
        assert of("bcast/binomial", n) == of("reduce/binomial", n) == np.log2(n)
        assert of("scatter/linear", n) == of("gather/linear", n) == n - 1
        assert of("allgather/ring", n) == of("alltoall/linear", n) == n - 1
    # Two messages a level, as long as a level is full: 15 tasks have three below the root.
    assert of("bcast/binary", 15) == of("reduce/binary", 15) == 6


def test_calls_of_the_bine_library_do_what_its_source_has():
    codes = {
        "bcast BINE-BINOMIAL_TREE-utofu": (0, 0, 16 * 8 * 3),
        "bcast BINE-BINOMIAL_TREE_TMPBUF-utofu": (0, 0, 0),
        "reduce BINE-BINOMIAL_TREE-utofu": (9, 0, 0),
        "allreduce RECDOUB-L-utofu": (3, 0, 0),
        "gather BINE-BINOMIAL_TREE_CONT_PERMUTE-DEC-utofu": (0, 24, 0),
        "bcast default-binomial": (0, 0, 0),
    }
    table = pd.DataFrame({"code": list(codes), "nbytes": 2048.0, "rounds": 3, "ports": 3})
    table["layer"] = np.where(table["code"].str.endswith("utofu"), "utofu", "fjmpi")
    table["n_tasks"] = 8
    found = pd.DataFrame(of_library(table))
    assert list(found.itertuples(index=False, name=None)) == list(codes.values())
    assert of_library(table.assign(nbytes=1024.0))["notices"].sum() == 0


def test_pairs_are_counted_as_rcc_counts_them():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"shape": "s", "collective": "c", "nbytes": 1.0, "time": rng.random(20)})
    predicted = rng.random(20)
    pairs, wrong, close = count_pairs(table, predicted, 0.1)
    assert (pairs, 1 - wrong / pairs) == (190, pytest.approx(rcc(table["time"], predicted)))
    assert 0 < close < wrong == count_pairs(table, predicted, np.inf)[2]


def test_corrections_make_known_rows_exact_and_interpolate_ports():
    table = pd.DataFrame(
        {
            "code": ["a BINE-L-u"] * 3 + ["a RECDOUB-L-u", "z other-u"],
            "layer": "utofu", "segment": 0, "nbytes": 8.0, "ports": [1, 4, 2, 1, 1],
            "time": [2.0, 8.0, 5.0, 9.0, 7.0],
        }
    )  # fmt: skip
    known = np.array([True, True, False, False, False])
    factor = corrections(table, np.ones(5), known)
    # Two ports lie halfway between one and four on the logarithmic scale.
    assert factor == pytest.approx([2.0, 8.0, 4.0, 2.0, 1.0])


def test_ranking_of_a_group():
    table = pd.DataFrame(
        {"shape": "s", "collective": "c", "nbytes": [1.0, 1.0, 1.0, 2.0], "time": [1.0, 2, 4, 9]}
    )
    groups = rank_groups(table, {"good": np.array([1.0, 2, 3, 1]), "bad": np.array([5.0, 4, 4, 1])})
    assert groups["algorithms"].tolist() == [3, 3]
    assert groups["regret"].tolist() == pytest.approx([0.0, 1.0])
    assert groups["rcc"].tolist() == pytest.approx([1.0, 1 / 3])


def test_every_measured_name_is_known_or_counted(measured):
    times = reader.read_times(measured)
    assert len(times) == sum(len(pd.read_csv(path)) for path in measured.glob("*.csv"))
    unknown = {
        row.algorithm
        for row in times.drop_duplicates(["collective", "algorithm"]).itertuples()
        if parse(row.collective, row.algorithm, row.nbytes, 3) is None
    }
    assert all(name.startswith("default-") for name in unknown)


def test_simulation_explains_equal_times_of_unlike_trees(measured):
    """Both trees of Open MPI take nine times the bytes; rounds in turn would say 10 and 11."""
    times = reader.read_times(measured)
    job = read_job(measured / "jobs" / "4x4x4")
    for algorithm in ("binary-tree", "binomial"):
        row = times[
            (times["shape"] == "4x4x4") & (times["algorithm"] == f"default-{algorithm}")
            & (times["collective"] == "bcast") & (times["nbytes"] == 2.0**23)
        ]  # fmt: skip
        plan = schedule(f"bcast/{algorithm.split('-')[0]}", 64, 2.0**26)
        units = simulated_bytes(plan, job.torus, job.mapping, all_ports=True) / 2.0**26
        # 6.35 GB/s is what one broadcast over a single link attains.
        assert row["time"].item() * 6.35e9 / 2.0**23 == pytest.approx(units, rel=0.03)


def test_ranks_algorithms_of_a_part(part):
    findings = EXPERIMENTS["fugaku"].run(Inputs(data=part.parent))
    assert {bar.kind for bar in findings.bars} == {"at least", "at most"}
    summary = findings.tables["fugaku_summary"].set_index(["shape", "method"])
    assert summary.loc[("4x4x4", "model"), "mean RCC"] > 0.8
    assert summary.loc[("4x4x4", "model"), "median regret@1"] < 0.15
    assert summary.loc[("2x2x2", "model, corrected"), "mean RCC"] > 0.95
    assert set(findings.shown) <= set(findings.tables)
    for chart in findings.charts:
        table = findings.tables[chart.table]
        wanted = {chart.x, chart.y, chart.group, chart.panel} - {None}
        assert wanted <= set(table.columns)
    kept, left_out = tabulate(part)
    assert len(kept) + len(left_out) == len(reader.read_times(part))
    assert findings.tables["fugaku_left_out"]["rows"].sum() == len(left_out)


def test_needs_data_and_the_calibration(tmp_path):
    with pytest.raises(InputError, match="--data"):
        EXPERIMENTS["fugaku"].run(Inputs())
    folder = write(tmp_path / "pico-fugaku", "BCAST,2048,default-binomial,15,4x4x4,1\n")
    (folder / "jobs" / "4x4x4").write_text(JOB.replace("2x2x2", "4x4x4"))
    with pytest.raises(InputError, match="no times of 2x2x2"):
        EXPERIMENTS["fugaku"].run(Inputs(data=tmp_path))
