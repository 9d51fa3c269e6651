"""Run `toruscast` again and again, killing it at random moments; then to its end.

python killed.py KILLS SEED ARGUMENT...

A child is forked for each: what it imports is imported once.
"""

import os
import random
import signal
import sys
import time

# Imported here, so that a child begins at once.
import toruscast.training.driving
import toruscast.training.search  # noqa: F401
from toruscast.cli import main
from toruscast.training import load_predictor


def begin(arguments):
    child = os.fork()
    if child:
        return child
    try:
        main.main(args=arguments)
    except SystemExit as ended:
        os._exit(ended.code or 0)


def killed(kills, seed, arguments):
    load_predictor()
    chance = random.Random(seed)
    for _ in range(kills):
        child = begin(arguments)
        time.sleep(chance.uniform(0.0, 1.0) ** 2 * 2.0)
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if os.WIFEXITED(status):
            break
    _, status = os.waitpid(begin(arguments), 0)
    return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    sys.exit(killed(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]))
