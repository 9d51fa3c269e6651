"""Kill long commands at random times, resume them, and compare with an undisturbed run.

    make kills KILLS=50
    python tools/kills.py --kills 3 train search

A command runs in its own folder. It is killed (SIGKILL) at a random time within its undisturbed run
time, and started again, until it finishes. Its files must then equal those of the undisturbed run
bit for bit, and the only other files may be hidden temporary ones. This is repeated in an empty
folder until the command has been killed the requested number of times. Exits with 1 if files
differ.
"""

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

from kept import renew

import toruscast as tc
import toruscast._search.search

# Imported before forking, so that a child starts at once.
import toruscast.decision.run_loop
from toruscast.cli import main
from toruscast.training import load_predictor, read_samples

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
from studies.command import command as studies_command  # noqa: E402
from studies.sc13 import plan as studies_plan  # noqa: E402

KEPT = ROOT / "tests" / "data" / "kills.csv"
HALO, TORUS = tc.patterns.halo_3d((4, 4, 4), 16384.0), tc.Torus((4, 4, 4))
TRAIN = "train --comm halo.csv --torus 4x4x4 -n 60 --samples s.parquet --out m.npz --splits 2 -q"
# The times depend only on the mapping, because killed runs are repeated.
MACHINE = """
sleep 0.$(($$ % 2))
echo "1$(basename $1 .map | cksum | cut -c 1-3).5"
"""
PLAN = (
    "plan --comm halo.csv --torus 4x4x4 --mappings maps/ --times runs.csv --runs 8 --jobs 1 -q "
    "--noise 0.5 --tolerance 0.0001 --run"
)
# Kills after which a command is left to finish.
IN_A_ROW = 5
# Fields of files that differ between runs.
OF_THE_RUN = ("command", "created", "processor_seconds")


class Small(studies_plan.Block):
    """A block of a study that takes little time to simulate."""

    torus = tc.Torus((2, 2, 2))

    @property
    def workload(self):
        """A small halo exchange."""
        return tc.patterns.halo_2d((16, 8), 4096, periodic=True).renamed(self.name)


def build_studies():
    blocks = tuple(Small("2D Halo", size, (2, 2, 2), 20, "wide") for size in ("8 B", "512 B"))
    studies_plan.blocks = lambda: blocks
    studies_command.main(args=["build", "--out", "s.parquet", "--jobs", "1", "-q"])


def search():
    """Search for a number of sweeps instead of seconds, so that the result can be reproduced."""

    def keep(mapping, _=None):
        tc.write_mapping(mapping, "best.csv")

    comm = tc.patterns.random_pairs(64, 4, 16384.0, seed=1)
    keep(tc.search(comm, TORUS, n_sweeps=96, n_jobs=1, callback=keep).best)


CALLS = {
    "train": lambda: main.main(args=[*TRAIN.split(), "--jobs", "1"]),
    "train-workers": lambda: main.main(args=[*TRAIN.split(), "--workers", "2"]),
    "plan-run": lambda: main.main(args=[*PLAN.split(), "sh machine.sh {map}"]),
    "search": search,
    "studies-build": build_studies,
}
TOLD = {
    "train": "`train --samples`: simulate samples, train a model",
    "train-workers": "the same with `--workers 2`",
    "plan-run": "`plan --run`: runs on the machine",
    "search": "a search that writes the best mapping so far",
    "studies-build": "`python -m studies build`, two small blocks",
}


def in_child(call, folder):
    """Start a call in a child process and a folder; return the process id."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        os.chdir(folder)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        call()
        code = 0
    except SystemExit as ended:
        code = ended.code or 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def ended(child):
    """Wait for a child; return its exit code."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def prepare(folder):
    """Make the folder of a command: a graph, mappings and a machine."""
    folder.mkdir()
    tc.write_comm(HALO, folder / "halo.csv")
    tc.write_mappings(tc.strategies.sample(HALO, TORUS, n=12, seed=1), folder / "maps")
    (folder / "machine.sh").write_text(MACHINE)


def of_the_work(origin):
    return {name: value for name, value in origin.items() if name not in OF_THE_RUN}


def told(path):
    """Return the content of a file, without the date, the command and the processor time."""
    if path.suffix == ".parquet":
        table = read_samples(path)
        return [table.to_csv(), of_the_work(table.attrs["provenance"])]
    if path.suffix == ".npz":
        model = load_predictor(path)
        # The samples are stored next to the model that was trained on them.
        times = model.predict(read_samples(path.with_name("s.parquet"))).tolist()
        return [times, model.feature_importances_.tolist(), of_the_work(model.provenance_)]
    return path.read_bytes().hex()


def content(folder):
    """Return the contents of all files of a folder."""
    place = folder.with_suffix(".json")

    def note():
        # A process that is killed while writing leaves a hidden temporary file.
        files = sorted(path for path in folder.rglob("[!.]*") if path.is_file())
        found = {str(path.relative_to(folder)): told(path) for path in files}
        place.write_text(json.dumps(found, default=str))

    # Reading may start threads, which must not exist when a child is forked.
    if ended(in_child(note, folder)):
        raise RuntimeError(f"the files of {folder} cannot be read")
    return json.loads(place.read_text())


def kill(call, folder, seconds, most, chance):
    """Kill a call up to a number of times, then let it end; return the kills and the exit code."""
    for kills in range(most):
        child = in_child(call, folder)
        time.sleep(chance.uniform(0.0, seconds))
        os.kill(child, signal.SIGKILL)
        code = ended(child)
        if code != -signal.SIGKILL:
            return kills, code
    return most, ended(in_child(call, folder))


def try_command(name, kills, folder, chance):
    """Kill a command a number of times; return a line for each difference."""
    call = CALLS[name]
    prepare(folder / "undisturbed")
    # The first run compiles the kernels.
    ended(in_child(call, folder / "undisturbed"))
    begun = time.monotonic()
    prepare(folder / "again")
    if ended(in_child(call, folder / "again")):
        return ["the undisturbed run fails"]
    seconds = time.monotonic() - begun
    expected = content(folder / "undisturbed")
    wrong = ["undisturbed runs differ"] if content(folder / "again") != expected else []
    done = number = 0
    while done < kills:
        number += 1
        place = folder / str(number)
        prepare(place)
        made, code = kill(call, place, seconds, min(IN_A_ROW, kills - done), chance)
        done += made
        found = content(place)
        names = {n for n in {*found, *expected} if found.get(n) != expected.get(n)}
        if code or names:
            wrong.append(f"run {number}, {made} kills: exit {code}, {', '.join(sorted(names))}")
    words = f"{done} kills in {number} runs of {seconds:.1f} s, {len(wrong)} differ"
    print(f"{name}: {words}", flush=True)
    return wrong


def run():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("commands", nargs="*", choices=[*CALLS, []], help="all if none is named")
    parser.add_argument("--kills", type=int, default=50, help="of each command")
    parser.add_argument("--seed", type=int, default=None, help="of the moments")
    parser.add_argument("--keep", action="store_true", help=f"write counts to {KEPT.name}")
    options = parser.parse_args()
    results = {}
    for name in options.commands or CALLS:
        with tempfile.TemporaryDirectory() as folder:
            wrong = try_command(name, options.kills, Path(folder), random.Random(options.seed))
        for line in wrong:
            print(f"  {line}", flush=True)
        results[name] = {"command": TOLD[name], "kills": options.kills, "differ": len(wrong)}
    if options.keep:
        renew(KEPT, results.values())
    return int(any(found["differ"] for found in results.values()))


if __name__ == "__main__":
    sys.exit(run())
