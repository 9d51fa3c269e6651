"""Who does the work: threads, processes or a cluster."""

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

# Batch systems that dask-jobqueue knows, by the tables of a cluster's file.
_SYSTEMS = {
    "slurm": "SLURMCluster",
    "pbs": "PBSCluster",
    "lsf": "LSFCluster",
    "sge": "SGECluster",
    "oar": "OARCluster",
    "htcondor": "HTCondorCluster",
}
_MOST_BYTES = 100_000
# Seconds until a scheduler must have answered: the refusal stands within ten.
_PATIENCE = 6


@contextmanager
def on_workers(work: Any) -> Iterator[Any]:
    """Start or find the workers, and give the work with as many jobs as they can do at once."""
    if work.workers is not None:
        with joblib.parallel_config("loky", n_jobs=work.workers):
            yield replace(work, jobs=work.workers)
    elif work.cluster is not None:
        with _cluster(work.cluster) as jobs:
            yield replace(work, jobs=jobs)
    else:
        yield work


@contextmanager
def _cluster(where: str) -> Iterator[int]:
    """Connect to a cluster, or start one, for as long as it is needed; give its threads."""
    try:
        from distributed import Client
    except ModuleNotFoundError:
        raise InputError(
            "--cluster needs dask.distributed", expected="pip install 'toruscast[dask]'"
        ) from None
    for name in ("distributed", "distributed.client", "distributed.core"):
        # What it would say is said in one line.
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    started = _started(where) if "://" not in where else None
    if started is None:
        _greet(where)
    client = Client(started or where, timeout=_PATIENCE, set_as_default=False)
    try:
        _check(client, where)
        with joblib.parallel_config("dask", client=client):
            yield max(sum(client.nthreads().values()), 1)
    finally:
        client.close(timeout=1)
        if started is not None:
            started.close()


def _greet(address: str) -> None:
    """Raise unless a scheduler answers in time: a client would try again and again."""
    from distributed import rpc

    async def identity() -> Any:
        scheduler = rpc(address, timeout=_PATIENCE)
        try:
            return await asyncio.wait_for(scheduler.identity(), _PATIENCE)
        finally:
            await scheduler.close_rpc()

    try:
        answer, why = asyncio.run(identity()), ""
    except Exception as error:
        # Bytes of another protocol give errors of many kinds.
        answer, why = {}, f" ({type(error).__name__})"
    kind = answer.get("type")
    if kind != "Scheduler":
        raise InputError(
            "no scheduler answers",
            found=address + (f", where a {kind} does" if kind else why),
            expected="the address that dask scheduler shows, such as tcp://host:8786",
        )


def _check(client: Any, where: str) -> None:
    """Wait for a first worker; see that toruscast is there, in the same version."""
    ours = metadata.version("toruscast")
    try:
        client.wait_for_workers(1, timeout=None if client.cluster is not None else _PATIENCE)
    except (TimeoutError, futures.TimeoutError):
        raise WorkersError(
            f"the scheduler at {where} has no worker: start some with dask worker {where}"
        ) from None
    for address, theirs in client.run(_version, on_error="return").items():
        if theirs != ours:
            raise WorkersError(
                f"worker {address} has toruscast {theirs or 'nowhere'}, and here it is {ours}"
            )


def _version() -> str | None:
    try:
        return metadata.version("toruscast")
    except metadata.PackageNotFoundError:
        return None


def _started(path: str) -> Any:
    """Ask a batch system for the workers that a file describes."""
    content = parse_toml(read_limited(path, _MOST_BYTES), path)
    known = ", ".join(_SYSTEMS)
    if len(content) != 1 or not isinstance(next(iter(content.values())), dict):
        raise InputError(
            "bad cluster file",
            file=path,
            found=", ".join(content),
            expected=f"one table of {known}",
        )
    system, options = next(iter(content.items()))
    if system not in _SYSTEMS:
        raise InputError("unknown batch system", file=path, found=system, expected=known)
    jobs = options.pop("jobs", None)
    if not isinstance(jobs, int) or isinstance(jobs, bool) or jobs < 1:
        raise InputError("bad jobs", file=path, found=jobs, expected="how many jobs to submit")
    try:
        import dask_jobqueue
    except ModuleNotFoundError:
        raise InputError(
            "a cluster file needs dask-jobqueue",
            file=path,
            expected="pip install 'toruscast[dask]'",
        ) from None
    try:
        cluster = getattr(dask_jobqueue, _SYSTEMS[system])(**options)
    except (TypeError, ValueError) as error:
        raise InputError(f"bad options of {system}", file=path, found=error) from None
    cluster.scale(jobs=jobs)
    return cluster
