"""What an application sends, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toruscast.report.units import nbytes
from toruscast.wording import counted, printable

if TYPE_CHECKING:
    from .inputs import Application

# Share of the bytes that are left out.
_WORTH_SAYING = 0.001


def application_line(application: Application) -> str:
    """Return what is sent, in words."""
    import numpy as np

    workload = application.workload
    comm = workload.total
    line = f"{printable(workload.name)}: {counted(comm.n_tasks, 'task')}, "
    line += f"{counted(comm.n_edges, 'edge')}, {nbytes(comm.nbytes.sum())}"
    if len(workload) > 1:
        line += f" in {counted(len(workload), 'round' if workload.dependent else 'phase')}"
    if application.iterations is not None:
        line += f" per iteration (1/{application.iterations:g} of the capture)"
    if application.traffic != "all":
        line += f", {application.traffic.replace('_', '-')} only"
    silent = np.setdiff1d(np.arange(comm.n_tasks), np.concatenate([comm.src, comm.dst]))
    # Where it alone is silent, the warning of the file's reader says so.
    if silent.size > 1 and silent[0] == 0:
        line += "; task 0 neither sends nor receives (tasks are numbered from 0)"
    left = sum(float(phase.nbytes[phase.whole_messages == 0].sum()) for phase in workload)
    left_out = left / max(float(comm.nbytes.sum()), 1e-300)
    if left_out >= _WORTH_SAYING:
        line += f"; {left_out:.1%} of them in edges of less than half a message, not simulated"
    return line
