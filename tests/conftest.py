import logging
import os
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from toruscast.cli.output import Output

# No deadline, because the time of an example depends on the load of the machine. The examples are
# few and the same in each run, so that unrelated changes cannot fail a test. EXAMPLES=N (`make
# laws`) draws more.
settings.register_profile(
    "toruscast",
    deadline=None,
    max_examples=50,
    derandomize="EXAMPLES" not in os.environ,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("toruscast")

# The cache of an earlier run decides which test compiles a kernel first.
logging.getLogger("toruscast._jit").setLevel(logging.ERROR)

# Programs that tests start must obey signals, even if a shell or nohup makes the tests ignore them.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)

# What this variable names; without it, the folder beside the clone.
VARIABLE = "TORUSCAST_DATA"
BESIDE = Path(__file__).parents[2] / "shared" / "data"


class Measurements(type(Path())):
    """The folder of public measurements; a test is skipped if its part is missing."""

    def __truediv__(self, part):
        path = Path(self) / part
        if not path.exists():
            pytest.skip(f"{part}: no such measurements in {self}")
        return path


@pytest.fixture(scope="session")
def shared_data():
    named = os.environ.get(VARIABLE)
    folder = Measurements(named or BESIDE)
    if not folder.is_dir():
        if named:
            pytest.fail(f"{VARIABLE}: {named} is not a folder")
        pytest.skip(f"no measurements: {VARIABLE} names no folder, and there is no {BESIDE}")
    return folder


@pytest.fixture
def progress_calls(monkeypatch):
    """Calls of the progress bar of a command as (done, total)."""
    calls = []

    class RecordedProgress:
        def __init__(self, *_, **__):
            pass

        def __enter__(self):
            return lambda stage, done, total: calls.append((done, total))

        def __exit__(self, *_):
            return None

    monkeypatch.setattr(Output, "progress", RecordedProgress)
    return calls
