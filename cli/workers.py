"""Processes or a Dask cluster on which a command runs its work."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from concurrent import futures
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from toruscast._slow import asyncio, joblib, metadata
from toruscast.errors import InputError, WorkersError
from toruscast.files import parse_toml, read_limited

# Classes of dask-jobqueue, by the name of their table in a cluster file.
_CLUSTER_CLASSES = {
    "slurm": "SLURMCluster",
    "pbs": "PBSCluster",
    "lsf": "LSFCluster",
    "sge": "SGECluster",
    "oar": "OARCluster",
    "htcondor": "HTCondorCluster",
}
_INSTALL = "pip install 'toruscast[dask]'"
_MAX_FILE_BYTES = 100_000
# Seconds to wait for a scheduler or its first worker.
_TIMEOUT = 6


@contextmanager
def start_workers(work: Any) -> Iterator[Any]:
    """Start or find the workers; yield ``work`` with their number as ``jobs``."""
    if work.workers is not None:
        with joblib.parallel_config("loky", n_jobs=work.workers):
            yield replace(work, jobs=work.workers)
    elif work.cluster is not None:
        with _connect_cluster(work.cluster) as jobs:
            yield replace(work, jobs=jobs)
    else:
        yield work


@contextmanager
def _connect_cluster(address_or_file: str) -> Iterator[int]:
    """Connect to a cluster, or start one from a file; yield its number of threads."""
    try:
        from distributed import Client
    except ModuleNotFoundError:
        raise InputError("--cluster needs dask.distributed", expected=_INSTALL) from None
    # Silence dask, because connection errors are reported below in one line.
    for name in ("distributed", "distributed.client", "distributed.core"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    cluster = None
    if "://" in address_or_file:
        _check_scheduler(address_or_file)
    else:
        cluster = _start_cluster(address_or_file)
    client = Client(cluster or address_or_file, timeout=_TIMEOUT, set_as_default=False)
    try:
        _check_workers(client, address_or_file)
        with joblib.parallel_config("dask", client=client):
            yield max(sum(client.nthreads().values()), 1)
    finally:
        client.close(timeout=1)
        if cluster is not None:
            cluster.close()


def _check_scheduler(address: str) -> None:
    """Raise if no scheduler answers in time, because a client would wait for it forever."""
    from distributed import rpc

    async def request_identity() -> Any:
        scheduler = rpc(address, timeout=_TIMEOUT)
        try:
            return await asyncio.wait_for(scheduler.identity(), _TIMEOUT)
        finally:
            await scheduler.close_rpc()

    try:
        answer, reason = asyncio.run(request_identity()), ""
    except Exception as error:
        # A server with another protocol may cause an error of any type.
        answer, reason = {}, f" ({type(error).__name__})"
    kind = answer.get("type")
    if kind != "Scheduler":
        found = address + (f", which is a {kind}" if kind else reason)
        expected = "the address that dask scheduler prints, such as tcp://host:8786"
        raise InputError("no scheduler answers", found=found, expected=expected)


def _check_workers(client: Any, address: str) -> None:
    """Wait for a worker, and check that every worker has our version of toruscast."""
    expected = metadata.version("toruscast")
    try:
        client.wait_for_workers(1, timeout=None if client.cluster is not None else _TIMEOUT)
    except (TimeoutError, futures.TimeoutError):
        raise WorkersError(
            f"the scheduler at {address} has no worker; start some with dask worker {address}"
        ) from None
    versions = client.run(metadata.version, "toruscast", on_error="return")
    for worker, version in versions.items():
        if version != expected:
            found = f"toruscast {version}" if isinstance(version, str) else "no toruscast"
            raise WorkersError(f"worker {worker} has {found}, expected {expected} as here")


def _start_cluster(path: str) -> Any:
    """Submit the jobs of a cluster file to its batch system."""
    content = parse_toml(read_limited(path, _MAX_FILE_BYTES), path)
    system, options = next(iter(content.items()), ("", None))
    if len(content) != 1 or system not in _CLUSTER_CLASSES or not isinstance(options, dict):
        found, expected = ", ".join(content), f"one table of {', '.join(_CLUSTER_CLASSES)}"
        raise InputError("bad cluster file", file=path, found=found, expected=expected)
    jobs = options.pop("jobs", None)
    if not isinstance(jobs, int) or isinstance(jobs, bool) or jobs < 1:
        raise InputError("bad jobs", file=path, found=jobs, expected="the number of jobs to submit")
    try:
        import dask_jobqueue
    except ModuleNotFoundError:
        fault = "a cluster file needs dask-jobqueue"
        raise InputError(fault, file=path, expected=_INSTALL) from None
    try:
        cluster = getattr(dask_jobqueue, _CLUSTER_CLASSES[system])(**options)
    except (TypeError, ValueError) as error:
        raise InputError(f"bad options of {system}", file=path, found=error) from None
    cluster.scale(jobs=jobs)
    return cluster
