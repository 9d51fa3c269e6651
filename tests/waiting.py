"""Waiting for what another process does, however busy the machine is."""

import os
import time
from contextlib import contextmanager

# Seconds after which it is taken that something never happens.
PATIENCE = 300


def until(happened):
    """Return once this is true; fail if it does not become so."""
    end = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.02)


@contextmanager
def lifeline(path):
    """Give whether all processes have ended that opened this pipe to write."""
    os.mkfifo(path)
    reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)

    def all_are_gone():
        try:
            return os.read(reading, 1) == b""
        except BlockingIOError:
            return False

    try:
        yield all_are_gone
    finally:
        os.close(reading)
