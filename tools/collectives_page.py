"""Make the page of collective algorithms from the registry."""

from __future__ import annotations

from toruscast.mapping.collectives import names, schedule

HEAD = """# Collectives

This page lists the algorithms of collectives, as in `toruscast simulate --collective
allreduce/ring:64MB`. The numbers are for 16 tasks on 4x4 nodes and a buffer of 1 MB. More rounds
cost more latency, and more bytes need more bandwidth. `make pages` writes this page from the
registry.

```sh
toruscast collectives allreduce:64MB --torus 4x4x4
```

| algorithm | rounds | messages | bytes sent by all tasks | maximum bytes sent by a task |
|---|---|---|---|---|
"""
_TASKS, _SHAPE, _BYTES = 16, (4, 4), 1e6


def pages() -> dict[str, str]:
    """Return the page by its path in docs."""
    return {"reference/collectives.md": HEAD + "".join(_row(name) for name in names())}


def _row(name: str) -> str:
    phases = list(schedule(name, _TASKS, _BYTES, _SHAPE).workload())
    sent = [0.0] * _TASKS
    for phase in phases:
        for task, nbytes in zip(phase.src.tolist(), phase.nbytes.tolist(), strict=True):
            sent[task] += nbytes
    messages = sum(phase.n_messages.sum() for phase in phases)
    cells = (f"`{name}`", len(phases), f"{messages:.0f}", f"{sum(sent) / 1e6:.2f} MB")
    return f"| {' | '.join(map(str, cells))} | {max(sent) / 1e6:.2f} MB |\n"
