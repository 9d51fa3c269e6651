"""Threads, processes and a cluster give the same results, and lost workers cost little."""

import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest
from numpy.linalg import cholesky
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import cross_val_score
from threadpoolctl import threadpool_info, threadpool_limits
from waiting import PATIENCE, until
from worker_tasks import double, end_always, end_once, links, refuse

import toruscast as tc
from toruscast import workers
from toruscast._mesh.traffic import MeshAxes
from toruscast.decision import posterior
from toruscast.errors import InputError, WorkersError
from toruscast.mapping import Torus, patterns, strategies
from toruscast.training import build_samples
from toruscast.workers import SingleBlasThread, Task

HALO, TORUS = patterns.halo_2d((4, 4), 4096, periodic=True), Torus((4, 4))
MAPPINGS = strategies.sample(HALO, TORUS, n=10)


def answers():
    """What each part of the program that uses workers says."""
    samples = build_samples([(HALO, TORUS, MAPPINGS)], level=2)
    found = tc.search(HALO, TORUS, n_sweeps=50, objective="hop_bytes")
    laid = tc.mesh(Torus((4, 4)), MeshAxes(("x", "y"), (4, 4)), "x:allreduce:1MB,y:exchange:4MB")
    return (
        tc.features(HALO, TORUS, MAPPINGS, level=2, extra={"links": links}),
        samples.drop(columns="key"),
        pd.Series([found.value, found.proposals, *found.best.node]),
        laid.collective_table(),
    )


def assert_equal(some, others):
    for one, other in zip(some, others, strict=True):
        (pd.testing.assert_series_equal if one.ndim == 1 else pd.testing.assert_frame_equal)(
            one, other, check_exact=True
        )


@pytest.fixture(scope="module")
def alone():
    return answers()


class Cluster:
    """A scheduler and two workers, processes of this machine."""

    def __init__(self, folder):
        self.folder = folder
        self.scheduler, self.address = self.start_scheduler(0)
        self.workers = [self.start_worker() for _ in range(2)]

    def start(self, *words):
        return subprocess.Popen(
            [sys.executable, "-m", "dask", *words],
            cwd=self.folder,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ
            | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])},
        )

    def start_scheduler(self, port):
        words = ("--host", "127.0.0.1", "--port", str(port), "--no-dashboard", "--no-jupyter")
        process = self.start("scheduler", *words)
        for line in process.stderr:
            if found := re.search(r"tcp://\S+", line):
                return process, found[0]
        raise AssertionError("the scheduler ended")

    def start_worker(self):
        words = ("--nthreads", "1", "--no-nanny", "--no-dashboard")
        return self.start("worker", self.address, *words)

    def end(self):
        for process in (*self.workers, self.scheduler):
            process.kill()
            process.wait()
            process.stderr.close()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    pytest.importorskip("distributed", reason="a cluster needs dask.distributed")
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    yield cluster
    cluster.end()


@pytest.fixture
def client(cluster):
    from distributed import Client

    with Client(cluster.address, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=PATIENCE)
        yield client


@pytest.mark.parametrize("n_jobs", [1, 2, 3])
def test_threads_give_results_in_order(n_jobs):
    assert Task(double).in_order(range(20), n_jobs) == list(range(0, 40, 2))


@pytest.mark.filterwarnings("ignore:.*tasks have been")
def test_a_stream_of_items_is_not_held():
    taken = []
    results = Task(double).each((taken.append(i) or i for i in range(10_000)), 2)
    assert next(results)[1] >= 0
    assert len(taken) < 1000
    results.close()


def test_threads_end_when_nobody_wants_more_results():
    taken, before = [], threading.active_count()
    results = Task(taken.append).each(iter(range(10_000_000)), 2)
    next(results)
    results.close()
    until(lambda: threading.active_count() <= before)
    assert 0 < len(taken) < 1000


def test_an_error_in_a_thread_is_raised():
    with pytest.raises(ZeroDivisionError):
        Task(lambda item: 1 // item).in_order([2, 1, 0, 1], 2)


def test_processes_say_the_same(alone):
    with joblib.parallel_config("loky", n_jobs=2):
        assert_equal(answers(), alone)


def test_scikit_learn_uses_processes_before_and_after():
    rows = np.arange(40.0)[:, None]
    with joblib.parallel_config("loky", n_jobs=2):
        for _ in range(2):
            assert Task(double).in_order(range(4), 2, processes=True) == [0, 2, 4, 6]
            assert cross_val_score(LinearRegression(), rows, rows[:, 0]).min() > 0.99


def test_a_lost_process_costs_only_its_tasks(tmp_path):
    with joblib.parallel_config("loky", n_jobs=2):
        found = Task(end_once, tmp_path / "ended").in_order(range(12), 2)
    assert found == list(range(0, 24, 2))


def test_processes_that_always_end_are_told(monkeypatch):
    monkeypatch.setattr(workers, "LOSSES", 1)
    expected = "worker processes ended 2 times without a result"
    with joblib.parallel_config("loky", n_jobs=2), pytest.raises(WorkersError, match=expected):
        Task(end_always).in_order(range(2), 2)


def test_an_error_of_the_input_arrives_whole():
    with (
        joblib.parallel_config("loky", n_jobs=2),
        pytest.raises(InputError, match=r"a\.txt:3: bad item: found 1") as raised,
    ):
        Task(refuse).in_order([1], 2)
    assert raised.value.line == 3


def test_processes_end_with_their_parent(tmp_path):
    program = (
        "import os, sys, time\n"
        "from toruscast.workers import Task\n"
        "def note(folder, item):\n"
        "    open(f'{folder}/{os.getpid()}', 'w').close()\n"
        "    time.sleep(1000)\n"
        f"Task(note, {str(tmp_path)!r}).in_order(range(4), 2, processes=True)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    until(lambda: len(list(tmp_path.iterdir())) == 2 or parent.poll() is not None)
    parent.kill()
    # Its pipe closes only when all who hold it have ended.
    assert parent.communicate(timeout=PATIENCE)[0] == b""


def test_a_cluster_says_the_same(client, alone):
    with joblib.parallel_config("dask", client=client):
        assert_equal(answers(), alone)


def test_an_error_on_a_cluster_arrives_whole(client):
    with (
        joblib.parallel_config("dask", client=client),
        pytest.raises(InputError, match="bad item"),
    ):
        Task(refuse).in_order([1, 2], 2)


def test_a_cluster_gives_results_before_all_items_are_there(client):
    taken = []

    def slow():
        for number in range(100_000):
            taken.append(number)
            time.sleep(0.01)
            yield number

    with joblib.parallel_config("dask", client=client):
        results = Task(double).in_turn(slow(), 2)
        assert [next(results) for _ in range(3)] == [0, 2, 4]
        assert len(taken) < 100_000
        results.close()


def test_a_lost_worker_of_a_cluster_costs_only_its_tasks(client, cluster, tmp_path, caplog):
    with joblib.parallel_config("dask", client=client):
        found = Task(end_once, tmp_path / "ended").in_order(range(12), 2)
    assert found == list(range(0, 24, 2))
    # The library tells of it too, in its own words.
    (told,) = [record for record in caplog.records if record.name.startswith("toruscast")]
    assert (told.event, told.again >= 1) == ("worker lost", True)
    assert "of the cluster was lost" in told.getMessage()
    ended = [worker for worker in cluster.workers if worker.poll() is not None]
    assert len(ended) == 1
    ended[0].stderr.close()
    cluster.workers.remove(ended[0])
    cluster.workers.append(cluster.start_worker())


def test_a_scheduler_that_starts_anew_is_told_on_one_line(client, cluster):
    with joblib.parallel_config("dask", client=client):
        results = Task(double).each(range(10_000), 2)
        next(results)
        cluster.scheduler.kill()
        cluster.scheduler.wait()
        with pytest.raises(WorkersError, match=r"scheduler at tcp://.* was lost"):
            list(results)


def test_numbers_are_those_of_the_configuration():
    with joblib.parallel_config("threading", n_jobs=2):
        table = tc.features(HALO, TORUS, MAPPINGS, features=["max_bytes"])
    assert np.isfinite(table["max_bytes"]).all()


@pytest.mark.parametrize(
    ("ppid", "parent", "ends"), [(1, 77, True), (500, 77, True), (1, 1, False), (77, 77, False)]
)
def test_a_worker_whose_parent_ended_before_it_began_ends_too(monkeypatch, ppid, parent, ends):
    ended = threading.Event()
    monkeypatch.setattr(workers.os, "getppid", lambda: ppid)
    monkeypatch.setattr(workers.os, "_exit", lambda code: ended.set())
    workers._end_with_parent(parent)
    assert ended.wait(30 if ends else 0.2) == ends
    # The thread ends with the test.
    monkeypatch.setattr(workers.os, "getppid", lambda: parent + 1)
    assert ended.wait(30)


def blas_threads():
    return {each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"}


def test_small_matrices_get_one_blas_thread(monkeypatch):
    seen = []

    def factor(matrix):
        seen.append(blas_threads())
        return cholesky(matrix)

    monkeypatch.setattr(np.linalg, "cholesky", factor)
    kernel = posterior.Kernel(0.0, 0.0, 1.0)
    prior = posterior.Posterior(
        prior_means=np.zeros((1, 3)),
        errors={"prior": posterior.ErrorComponent(np.ones(3), kernel)},
        sources={posterior.TIME: ("prior",), posterior.FULL: ("prior",)},
        features=np.eye(3),
        bounds=np.zeros(3),
    )
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        prior.condition(np.array([0]), posterior.FULL, np.array([1.0])).marginal()
        assert blas_threads() == before
        with SingleBlasThread():
            with SingleBlasThread():
                pass
            assert blas_threads() == {1}
        with pytest.raises(KeyError), SingleBlasThread():
            raise KeyError
        assert blas_threads() == before
    assert seen == [{1}]
