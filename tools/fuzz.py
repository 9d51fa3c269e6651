"""Fuzz every reader with malformed files, guided by code coverage (atheris).

    make fuzz RUNS=1000000              all families
    make fuzz RUNS=10000 FAMILIES="model graph-goal"

Each family of readers runs in its own process. It first reads the files of
``tests/fuzz_families.py`` and ``tests/data/fuzz``, then files that repeat one word very often, then
the requested number of generated files. The first file that causes a kind of fault is stored in
``OUT/faults/FAMILY``. Copy useful ones to ``tests/data/fuzz/FAMILY``, which ``make test`` reads.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
KEPT = ROOT / "tests" / "data" / "fuzz"
# Modules of readers, whose coverage guides the search.
READERS = [
    "toruscast.formats",
    "toruscast._mesh",
    "toruscast.mapping.machines",
    "toruscast.scaling.readers",
    "toruscast.scaling",
    "toruscast.scaling.interconnect",
    "toruscast.training.model_file",
    "toruscast.training.residuals",
    "toruscast.training.store",
]
AMPLIFIED = 300_000
# Seconds without output after which a run is ended.
HANGS = 30


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("families", nargs="*", help="all if none is named")
    parser.add_argument("--runs", type=int, default=10_000, help="executions a family")
    parser.add_argument("--seconds", type=int, default=0, help="most seconds a family; 0 for any")
    parser.add_argument("--out", type=Path, default=ROOT / ".venv" / "fuzz")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT / "tests"))
    if options.one:
        _fuzz(options.families[0], options)
        return 0
    from fuzz_families import families

    known = families()
    wrong = sorted(set(options.families) - set(known))
    if wrong:
        parser.error(f"no such family: {wrong[0]}, expected {', '.join(known)}")
    n_faults = 0
    for name in options.families or known:
        n_faults += _run(name, options)
    print(f"{n_faults} kinds of faults")
    return int(n_faults > 0)


def _run(name, options):
    """Fuzz a family in its own process, and write the result."""
    faults = options.out / "faults" / name
    faults.mkdir(parents=True, exist_ok=True)
    words = ["--runs", str(options.runs), "--seconds", str(options.seconds)]
    start = time.monotonic()
    with tempfile.TemporaryFile("w+") as log:
        ended = subprocess.run(
            [sys.executable, __file__, name, "--one", *words, "--out", str(options.out)],
            stdout=log,
            stderr=log,
            check=False,
        )
        log.seek(0)
        (options.out / f"{name}.log").write_text(log.read())
    place = options.out / f"{name}.json"
    told = json.loads(place.read_text()) if place.exists() else {"executions": 0}
    found = sorted(faults.glob("*.txt"))
    stopped = list(faults.glob("timeout-*")) + list(faults.glob("oom-*"))
    if ended.returncode and not stopped:
        stopped = [f"exit {ended.returncode}, see {options.out / name}.log"]
    words = f"{name}: {told['executions']} executions, {time.monotonic() - start:.0f} s"
    print(f"{words}, {len(found) + len(stopped)} kinds of faults", flush=True)
    for file in found:
        print(f"  {file.read_text().strip()} ({file.with_suffix('')})", flush=True)
    for file in stopped:
        print(f"  {file}", flush=True)
    return len(found) + len(stopped)


def _fuzz(name, options):
    """Fuzz a family in this process, which ends afterwards."""
    try:
        import atheris
    except ImportError:
        sys.exit("atheris is not installed: pip install 'toruscast[fuzz]'")
    sys.dont_write_bytecode = True
    with atheris.instrument_imports(include=READERS):
        from fuzz_check import Judge, amplified, kind_of, mutated
        from fuzz_families import families
    family = families()[name]
    corpus, faults = options.out / "corpus" / name, options.out / "faults" / name
    corpus.mkdir(parents=True, exist_ok=True)
    done = {"executions": 0}
    place = options.out / f"{name}.json"
    with tempfile.TemporaryDirectory() as folder:
        judge = Judge(family, folder)

        def try_one(data):
            done["executions"] += 1
            fault = judge.fault_of(data)
            if fault:
                kept = faults / kind_of(fault)
                if not kept.exists():
                    kept.write_bytes(data)
                    kept.with_suffix(".txt").write_text(fault + "\n")
            if done["executions"] % 1000 == 0:
                place.write_text(json.dumps(done))

        def change(data, size, seed):
            rng = random.Random(seed)
            changed = mutated(data, rng) if rng.random() < 0.3 else atheris.Mutate(data, size)
            return changed[:size]

        for i, seed in enumerate((*family.seeds, *(p.read_bytes() for p in _kept(name)))):
            (corpus / f"seed{i}").write_bytes(seed)
        for seed in family.seeds[:1]:
            for data in amplified(seed, AMPLIFIED):
                try_one(data)
        place.write_text(json.dumps(done))
        words = [
            *(f"-runs={options.runs}", f"-max_total_time={options.seconds}"),
            *(f"-timeout={HANGS}", "-rss_limit_mb=4000", "-max_len=20000", "-len_control=50"),
            *(f"-artifact_prefix={faults}/", "-print_final_stats=1", str(corpus)),
        ]
        atheris.Setup([sys.argv[0], *words], try_one, custom_mutator=change)
        atheris.Fuzz()


def _kept(name):
    return sorted((KEPT / name).glob("*")) if (KEPT / name).is_dir() else []


if __name__ == "__main__":
    sys.exit(main())
