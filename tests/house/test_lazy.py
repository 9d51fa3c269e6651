"""Attributes computed when first asked for."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from toruscast._lazy import lazy


class Meeting:
    barrier = Barrier(2, timeout=300)

    @lazy
    def place(self):
        """Where two threads meet."""
        self.barrier.wait()
        return [1]


def test_two_instances_are_computed_side_by_side():
    # With one lock for both the first would wait for the second until the barrier breaks.
    one, other = Meeting(), Meeting()
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda meeting: meeting.place, (one, other)))
    assert found == [[1], [1]]
    assert one.place is one.place
    assert one.place is not other.place


def test_of_a_class_it_is_the_attribute_itself():
    assert Meeting.place.__doc__ == "Where two threads meet."


def test_a_slow_module_is_named_once_and_imported_when_first_used():
    code = "import sys, toruscast._slow as slow; print('networkx' in sys.modules, end=' ');"
    code += "slow.networkx.Graph; print('networkx' in sys.modules)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout == "False True\n"
