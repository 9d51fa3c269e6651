"""Random options of every command, with tiny inputs, and the judgement of how the command ends."""

import json
import os
import random
import re
import signal
import traceback
from contextlib import contextmanager
from pathlib import Path

import click
from click.testing import CliRunner

from toruscast.cli import main

GRAPH = "8\n" + "".join(f"{task} {(task + 1) % 8} {1000 + 10 * task}\n" for task in range(8))
NODES = {"a": range(8), "b": [1, 0, 2, 3, 4, 5, 6, 7], "c": [7, 2, 3, 4, 0, 1, 6, 5]}
POINTS = "PARAMETER p\nPOINTS 4 8 16 32 64\nREGION main\nMETRIC time\n" + "".join(
    f"DATA {3 + 2 * p} {3.1 + 2 * p}\n" for p in (4, 8, 16, 32, 64)
)
PLUGIN = """
from toruscast._features import FEATURES, register_feature
if "mine_x" not in FEATURES:
    register_feature("mine_x", description="x")(lambda traffic: 1.0)
"""
FILES = {
    "g.edges": GRAPH,
    "maps.csv": "".join(f"{name},{','.join(map(str, row))}\n" for name, row in NODES.items()),
    "m.csv": "task,node\n" + "".join(f"{task},{task}\n" for task in range(8)),
    "times.csv": "mapping,time\na,1.0\nb,1.5\na,1.1\n",
    "hosts.csv": "host,x,y\n" + "".join(f"h{i},{i // 4},{i % 4}\n" for i in range(8)),
    "nodes.txt": "".join(f"{node}\n" for node in range(8)),
    "links.csv": "link,bandwidth\n0,1e8\n",
    "osu.csv": "source,destination,bytes,time\n"
    + "".join(f"0,1,{8**k},{1e-6 + 8**k * 1e-9}\n" for k in range(1, 8)),
    "p.txt": POINTS,
    "plugin.py": PLUGIN,
    "broken.json": '{"a": [1, ',
    "empty": "",
    "app.toml": '[requirements]\nbytes_used = "1e5 * n"\nflop = "1e7 * n * log2(p)"\n',
}
_SIMULATED = "--comm g.edges --torus 2x4"
_MANY = f"{_SIMULATED} --candidates 3 --jobs 1"
# Lines that work, to which options are added.
LINES = {
    "rank": [_MANY, f"{_SIMULATED} --mappings maps.csv --jobs 1", f"{_MANY} --no-simulation"],
    "plan": [
        f"{_SIMULATED} --mappings maps.csv --jobs 1",
        f"{_SIMULATED} --mappings maps.csv --times times.csv --jobs 1",
    ],
    "search": [
        f"{_SIMULATED} --seconds 0 --jobs 1",
        f"{_SIMULATED} --seconds 0 --mappings maps.csv",
    ],
    "launch": [f"{_SIMULATED} --hosts hosts.csv --seconds 0 --print -- mpiexec true"],
    "mesh": ["--torus 2x4 --axes x=2,y=4 --traffic x:allreduce:1MB --jobs 1"],
    "collectives": ["allreduce:64KB --torus 2x4"],
    "explain": [f"{_SIMULATED} --mapping identity"],
    "simulate": [
        f"{_SIMULATED} --mapping identity",
        f"{_SIMULATED} --mappings maps.csv --jobs 1",
        f"{_SIMULATED} --mappings maps.csv --flows --jobs 1",
    ],
    "features": [_MANY, "--list"],
    "train": [f"{_SIMULATED} -n 6 --splits 1 --features max_bytes --jobs 1 --out m.npz"],
    "evaluate": [f"{_SIMULATED} -n 6 --splits 1 --features max_bytes --jobs 1"],
    "calibrate": ["osu.csv --torus 2x4"],
    "trace": ["-- true"],
    "doctor": ["g.edges", "maps.csv --torus 2x4", "times.csv p.txt"],
    "convert": ["g.edges out.csv", "--mapping --torus 2x4 m.csv out.map"],
    "formats": ["", "edges"],
    "machines": ["", "tpu_v4"],
    "pmnf compose": ["pipe(a,b) --task a=2*p --task b=3*p --at p=4"],
    "pmnf errors": ["p.txt"],
    "pmnf fit": ["p.txt"],
    "pmnf plan": ["--values p=2,4,8,16,32", "p.txt"],
    "pmnf predict": ["p.txt --at p=128"],
    "pmnf variation": ["p.txt"],
    "interconnect fit": ["lsdyna-interconnect"],
    "interconnect speed-up": ["lsdyna-interconnect"],
    "interconnect what-if": ["lsdyna-interconnect", "lsdyna-interconnect --latency 1e-6"],
    "codesign models": ["", "--app app.toml"],
    "codesign share": ["--app milc --app kripke --system s=1024,1e9"],
    "codesign systems": ["", "--system s=1024,1e9,1e12"],
    "codesign upgrade": ["", "--upgrade double=2,1"],
}
# Options that run programs or ask the network; the tests of each command have them.
UNTRIED = {"--cluster", "--run", "--workers", "--partitioners", "--mpicc"}
_HOSTILE = ["", " ", "-", "--", "nan", "inf", "-1", "0", "1e400", "x", "=", "a=b", ",", "é\u202e"]
_HOSTILE += ["1,2", "9" * 30, "a" * 300, "..", "/", "/dev/null", "missing", "empty", "broken.json"]
_TEXTS = {
    "--torus": "2x4 4x2 8 2x2x2 2x4m 4x4 machine bluegene_q:32 tpu_v4:4x4x4 2x0 2xa 0",
    "--network": "overhead=1us tie_break=random unknown buffer_packets=3 deadlock=dateline "
    "routing_order=1,0 bandwidth=1e9,2e9 zones=bluegene_q hop_latency=-1 fifos=0",
    "--collective": "allreduce/ring:64KB alltoall/linear:8 allreduce:1KB broadcast/x:1",
    "--grid": "2x4 8 2x2 3x3",
    "--columns": "src=a,dst=b src=0,dst=1,nbytes=2 src",
    "--mapping-columns": "task=task,node=node task=a",
    "--collectives": "allreduce=ring allreduce=x",
    "--format": "edges matrix graph=edges mapping=table mapping=edges auto rank-order",
    "--fix": "0=0 1=7 0=99 99=0 0=a",
    "--features": "max_bytes analytic H1 max_bytes,avg_bytes mine sketch nothing",
    "--objective": "time hop_bytes max_bytes nothing",
    "--mapping": "identity random@2 m.csv maps.csv zigzag",
    "--against": "identity random@2 m.csv 2*p",
    "--out-format": "bluegene nodes rank-order edges csv",
    "--axes": "x=2,y=4 x=8 x=2 x=2,x=4",
    "--traffic": "x:allreduce:1MB,y:exchange:4MB z:allreduce:1 x:allreduce:1MB",
    "--system": "s=1024,1e9 s=1024,1e9,1e12 s=0,0 s=1,1,1,1",
    "--upgrade": "d=2,1 d=0,0 d=2",
    "--metric": "flop=time time bytes_used=x flop",
    "--app": "milc kripke app.toml p.txt",
    "--shares": "0.5,0.5 0.2,0.3 1,1 0,1",
    "--by": "1,2,4 0 2",
    "--at": "p=4 p=4,q=2 p=0 p=-1 p=1e300",
    "--values": "p=2,4,8 p=2 q=1,2,3,4,5 p=1,1,1",
    "--range": "p=1..100 p=9..1 p=0..10",
    "--task": "a=2*p b=p.txt c=log2(p) a=p^p",
    "--cost": "p p^2 1/0",
    "--together": "p,q p",
    "--interval": "1us 0.5 0.95 1e-9",
    "--between": "0 1",
    "--between second": "1",
    "--write": "mesh.py jax=out.py out.toml",
    "--region": "all iteration marked 1-2 2-1",
    "--latency-unit": "s us ns x",
    "--bandwidth-unit": "GB/s B/s x",
    "--interconnect": "x gigabit",
    "--callpath": "main x",
    "--parameter": "p x=p",
    "--value": "time value",
}


def leaves(command=main, path=()):
    """Give every command below a group, with the words that call it."""
    if not isinstance(command, click.Group):
        yield " ".join(path), command
        return
    for name in command.list_commands(click.Context(command)):
        yield from leaves(command.get_command(click.Context(command), name), (*path, name))


def write_files(folder):
    for name, text in FILES.items():
        (Path(folder) / name).write_text(text)


def drawn_line(path, command, rng):
    """Return the words of a call: a line that works with options added, replaced or left out."""
    words = [*path.split(), *rng.choice(LINES[path]).split()]
    behind = words[words.index("--") :] if "--" in words else []
    words = words[: len(words) - len(behind)]
    if rng.random() < 0.1 and len(words) > 2:
        del words[rng.randrange(len(path.split()), len(words))]
    options = [one for one in command.params if one.param_type_name == "option"]
    options = [one for one in options if one.opts[0] not in UNTRIED]
    for one in rng.sample(options, min(len(options), rng.choice([0, 1, 1, 2, 2, 3, 5]))):
        words += drawn_option(one, rng)
    return [*words, *behind]


def drawn_option(option, rng):
    """Return an option with a value that is valid, at a limit, or hostile."""
    name, kind = option.opts[0], option.type
    if option.is_flag:
        return [name]
    if rng.random() < 0.15:
        return [name, *(rng.choice(_HOSTILE) for _ in range(option.nargs))]
    if isinstance(kind, click.Choice):
        return [name, rng.choice(list(kind.choices))]
    if isinstance(kind, click.types._NumberRangeBase):
        limits = [limit for limit in (kind.min, kind.max) if limit is not None and limit < 100]
        return [name, str(rng.choice([*limits, *(limit - 1 for limit in limits), 2, 3, 0.5]))]
    metavar = option.metavar or ""
    texts = _TEXTS.get(name, "").split() if name in _TEXTS else []
    if not texts and ("FILE" in metavar or "FOLDER" in metavar):
        texts = [*FILES, ".", "new", "new.csv", "new.html", "new.json", "new.npz", "new.parquet"]
    return [name, *(rng.choice(texts or ["1", "2.5"]) for _ in range(option.nargs))]


class _HangError(BaseException):
    pass


@contextmanager
def limited(seconds):
    def end(*_):
        raise _HangError

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def fault_of(words, seconds=60):
    """Run the command in this process; return what must not happen, or None, and the exit code."""
    os.environ.pop("TORUSCAST_TRACEBACK", None)
    try:
        with limited(seconds):
            result = CliRunner().invoke(main, words)
    except _HangError:
        return f"takes more than {seconds} s", None
    if isinstance(result.exception, _HangError):
        return f"takes more than {seconds} s", None
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        frames = "".join(traceback.format_exception(result.exception))
        return f"raises {result.exception!r}\n{frames}", result.exit_code
    code, errors = result.exit_code, result.stderr
    told = [line for line in errors.splitlines() if line.startswith("toruscast: error:")]
    text = errors + result.stdout
    if code not in (0, 1, 2):
        return f"exit code {code}", code
    if "TORUSCAST_TRACEBACK" in errors or "Traceback" in text or "Warning:" in errors:
        return errors, code
    # `doctor` says in its table what is wrong.
    if len(told) != (code != 0) and not (words[0] == "doctor" and code == 2):
        return f"exit code {code} with {len(told)} lines of error: {errors}", code
    if code == 0 and "--json" in words and words[words.index("--json") + 1] == "-":
        try:
            json.loads(result.stdout)
        except ValueError as error:
            return f"no JSON: {error}", code
    return None, code


def kind_of(fault):
    """Return what faults of one kind have in common."""
    return re.sub(r"[0-9]+", "N", fault.strip().splitlines()[-1 if "Traceback" in fault else 0])[
        :150
    ]


def cases(path, seed, n):
    """Return ``n`` drawn lines of a command."""
    command, rng = dict(leaves())[path], random.Random(f"{seed} {path}")
    return [drawn_line(path, command, rng) for _ in range(n)]
