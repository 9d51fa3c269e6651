"""Arguments of a wrong type raise an InputError that names the argument."""

import pandas as pd
import pytest

from toruscast import scaling
from toruscast.errors import InputError

APP = scaling.Application("a", {"bytes_used": "n"})
TASK = scaling.sequential("a", "n")
DATA = scaling.Measurements(["p"], [[2], [4], [8]], [[[2.0], [4], [8]]])
ROW = ("a", "fast", 2e-5, 2e8, 1e6, 1e3, 1e3)
JOBS = pd.DataFrame([ROW], columns=scaling.JOB_COLUMNS)
NET = scaling.Interconnect(1.0, 1.0)


@pytest.mark.parametrize("other", [3, None, object()], ids=["number", "none", "object"])
@pytest.mark.parametrize(
    "call",
    [
        lambda x: scaling.Application("a", x),
        lambda x: scaling.Application("a", {"bytes_used": "n"}, smallest=x if x != 3 else "x"),
        lambda x: scaling.Interconnect(x if x != 3 else "x", 1.0),
        lambda x: scaling.communication_times(JOBS, x),
        lambda x: scaling.compare_systems(APP, [x]),
        lambda x: scaling.compare_systems(x),
        lambda x: scaling.composed(x, {}),
        lambda x: scaling.fit_interconnect(JOBS, x),
        lambda x: scaling.fit_interconnect(x),
        lambda x: scaling.fit_many(DATA, x if x is not None else "x"),
        lambda x: scaling.fit_many(DATA, None, x if x is not None else "x"),
        lambda x: scaling.fit_many(x),
        lambda x: scaling.next_runs(x, [[16]]),
        lambda x: scaling.read_application(x),
        lambda x: scaling.read_formulas(x),
        lambda x: scaling.read_jobs(x),
        lambda x: scaling.read_measurements(x),
        lambda x: scaling.replicate(x, 2, {"n": 3}),
        lambda x: scaling.sequential("a", x),
        lambda x: scaling.share_system([APP, APP], x),
        lambda x: scaling.upgrade_ratios(APP, x),
        lambda x: scaling.upgrade_ratios(x),
        lambda x: scaling.variations(x),
        lambda x: scaling.what_if(JOBS, NET, [x]),
        lambda x: scaling.what_if(JOBS, x),
        lambda x: scaling.what_if(x, NET),
        lambda x: TASK.relative_error(x, {"n": 3}),
    ],
)
def test_wrong_types_are_input_errors(call, other):
    with pytest.raises(InputError):
        call(other)
