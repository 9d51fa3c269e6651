"""Output and files of ``toruscast mesh``."""

import io
import json
import math
import re
import subprocess
import sys
import types
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import toruscast as tc
from toruscast._mesh.command import _SUFFIXES, write_files
from toruscast._mesh.devices import default_devices, find_devices, read_layout, split_chips
from toruscast._mesh.traffic import MeshTraffic
from toruscast.cli import main
from toruscast.errors import InputError
from toruscast.formats import registry
from toruscast.mapping.omissions import describe_omissions

ASKED = ["--torus", "tpu_v5e:4x2", "--axes", "data=2,tensor=4"]
SENT = "tensor:allreduce:64MB,data:allgather:8MB:3"


def run(*words):
    with pytest.raises(SystemExit) as ended:
        main(["mesh", *words])
    return ended.value.code


def test_json_has_the_same_content(capsys):
    assert run(*ASKED, "--traffic", SENT, "--json", "-") == 0
    content = json.loads(capsys.readouterr().out)
    answer = tc.mesh(tc.torus("tpu_v5e:4x2"), "data=2,tensor=4", SENT)
    assert content["ids"] == answer.ids.tolist()
    assert content["ranking"][0]["time"] == pytest.approx(answer.best.time)
    assert [row["what"] for row in content["traffic"]] == ["tensor allreduce", "data allgather"]


def test_every_form_is_the_same_mesh(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    files = ["ids.json", "ids.npy", "mesh.py", "neuron=ranks.txt", "best.map"]
    assert run(*ASKED, "--traffic", SENT, *(w for f in files for w in ("--write", f))) == 0
    ids = np.array(json.loads((tmp_path / "ids.json").read_text()))
    assert ids.shape == (2, 4)
    assert (np.load("ids.npy") == ids).all()
    ranks = (tmp_path / "ranks.txt").read_text()
    assert ranks == ",".join(map(str, ids.ravel())) + "\n"
    torus = tc.torus("tpu_v5e:4x2")
    nodes = tc.read_mapping("best.map", torus).node
    # Devices of a TPU slice are numbered with X fastest.
    assert (torus.coords[nodes] @ [1, 4] == ids.ravel()).all()


def test_sentences_break_between_words_and_report_idle_devices(monkeypatch):
    """A terminal of 60 columns."""
    screen = io.StringIO()
    screen.isatty = lambda: True
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setenv("COLUMNS", "60")
    words = ["--torus", "4x8", "--axes", "a=4,b=4", "--order", "overlap"]
    assert run(*words, "--traffic", "a:exchange:1MB,b:permute:1MB") == 0
    text = re.sub(r"\x1b\[[0-9;]*m", "", screen.getvalue())
    sentences, _, _ = text.partition("import jax")
    assert max(map(len, sentences.splitlines())) <= 60
    together = " ".join(sentences.split())
    assert "The mesh uses 16 of 32 devices; 16 stay idle." in together
    assert (
        "The time is not simulated because these collectives run at the same time: a exchange"
        in together
    )
    assert "collectives run at the same time" in " ".join(text.split())


def test_the_program_of_pytorch_makes_the_same_mesh(tmp_path, monkeypatch):
    """A fake class takes flat device numbers, the shape and the names."""
    target = tmp_path / "mesh_torch.py"
    assert run(*ASKED, "--traffic", SENT, "--write", f"torch={target}") == 0
    spmd = types.ModuleType("torch_xla.distributed.spmd")
    spmd.Mesh = lambda ids, shape, names: (ids.reshape(shape).tolist(), names)
    for name in ("torch_xla", "torch_xla.distributed"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    sys.modules["torch_xla"].distributed = sys.modules["torch_xla.distributed"]
    sys.modules["torch_xla.distributed"].spmd = spmd
    monkeypatch.setitem(sys.modules, "torch_xla.distributed.spmd", spmd)
    made = {}
    exec(target.read_text(), made)
    answer = tc.mesh(tc.torus("tpu_v5e:4x2"), "data=2,tensor=4", SENT)
    assert made["mesh"] == (answer.ids.tolist(), ("data", "tensor"))


def test_devices_of_a_chip(tmp_path, capsys):
    words = ["--axes", "fsdp=16,tensor=4", "--traffic", "tensor:allreduce:64MB"]
    ranks = tmp_path / "ranks.txt"
    assert run("--torus", "trainium2:4x4", *words, "--write", f"neuron={ranks}") == 0
    assert sorted(map(int, ranks.read_text().split(","))) == list(range(64))
    assert run("--torus", "4x4", *words) == 2
    assert run("--torus", "4x4", *words, "--devices-per-chip", "4", "--json", "-") == 0
    text = capsys.readouterr().out
    assert json.loads(text[text.index("{") :])["idle"] == 0


HLO = Path(__file__).parents[1] / "data/hlo"
STATED = {
    "while_loop": ["--trips", "while.9=64"],
    "cond_axes": ["--branch", "conditional.1.clone=0"],
}


@pytest.mark.parametrize("name", STATED)
def test_open_values_of_a_program_are_reported_by_every_command(name, capsys):
    file = str(HLO / f"{name}.hlo")
    found = []
    for words in (
        ["mesh", "--torus", "tpu_v5e:2x4", "--hlo", file],
        ["mesh", "--torus", "tpu_v5e", "--slices", "8", "--hlo", file],
        ["rank", "--torus", "2x4", "--candidates", "2", "--comm", file],
        ["doctor", file],
    ):
        for stated in ([], STATED[name]):
            with pytest.raises(SystemExit) as ended:
                main([*words, *stated, "--json", "-"])
            assert ended.value.code == 0
            content = json.loads(capsys.readouterr().out)
            found.append(content["files"][0] if "files" in content else content)
    (step,) = tc.read_hlo(file).omitted
    assert [each["omitted"] for each in found] == [[asdict(step)], []] * 4
    assert run("--torus", "tpu_v5e:2x4", "--hlo", file) == 0
    assert describe_omissions([step]) in " ".join(capsys.readouterr().out.split())


def test_options_of_programs_go_with_programs(capsys):
    assert run(*ASKED, "--traffic", SENT, "--trips", "4") == 2
    assert "--trips needs --hlo" in capsys.readouterr().err
    assert run("--torus", "tpu_v5e:2x4", "--hlo", str(HLO / "while_loop.hlo"), "--trips", "x") == 2
    assert "expected a whole number" in capsys.readouterr().err


DEVICES = [(0, 0, 0, 0), (1, 1, 0, 0), (4, 0, 1, 0), (2, 2, 0, 1), (3, 3, 0, 1), (6, 2, 1, 1)]


def test_devices_of_a_slice_with_missing_chips(tmp_path, capsys):
    """JAX lists devices host by host; a device number is its index among the sorted ids."""
    path = tmp_path / "devices.txt"
    path.write_text(
        "["
        + ",\n ".join(
            f"TpuDevice(id={id}, process_index={host}, coords=({x},{y},0), core_on_chip=0)"
            for id, x, y, host in DEVICES
        )
        + "]\n"
    )
    torus = ["--torus", "tpu_v5e:4x2", "--devices", str(path), "--traffic", "b:exchange:1MB"]
    assert run(*torus, "--axes", "a=2,b=3", "--json", "-") == 0
    content = json.loads(capsys.readouterr().out)
    assert sorted(np.ravel(content["ids"])) == list(range(6))
    at = {n: (x, y) for n, (_, x, y, _) in enumerate(sorted(DEVICES))}
    places = [at[n] for n in np.ravel(content["ids"])]
    nodes = tc.torus("tpu_v5e:4x2").coords[np.ravel(content["nodes"])]
    assert places == [tuple(place) for place in nodes.tolist()]
    assert run(*torus, "--axes", "a=2,b=4") == 2


def test_the_best_is_compared_with_a_layout_of_ones_own(tmp_path, capsys):
    (tmp_path / "mine.json").write_text("[[0, 2, 1, 3], [4, 6, 5, 7]]")
    words = [*ASKED, "--traffic", "tensor:exchange:4MB", "--compare", str(tmp_path / "mine.json")]
    assert run(*words, "--json", "-") == 0
    content = json.loads(capsys.readouterr().out)
    best = content["ranking"][0]["time"]
    assert content["yours"]["time"] > content["default"]["time"] > best
    assert run(*words) == 0
    assert "less than your layout" in capsys.readouterr().out
    (tmp_path / "mine.json").write_text("[[0, 2], [4, 6]]")
    assert run(*words) == 2


CASES = [
    ("tpu_v5e:4x2", {"data": 2, "tensor": 4}),
    ("tpu_v4:2x2x2", {"x": 2}),
    ("trainium2:2x4", {"dp": 4, "tp": 2}),
    ("trainium2:2x2", {"dp": 4, "tp": 4}),
    ("tpu7x:2x2x1", {"x": 3, "y": 2}),
]
# File names, with the form before it if the suffix does not identify it.
FORMS = ["a.json", "a.npy", "a.py", "json=a", "torch=a.py", "torch=a.txt", "neuron=a.txt", "a.map"]
FORMS += [
    f"{each.name}=a{next(iter(each.suffixes), '.txt')}" if each.suffixes[:1] != (".json",) else ""
    for each in registry.dialects("mapping")
    if each.write and not each.on_hosts
]
# A count followed by nodes looks like nodes alone.
NAMED = ("sst-macro=",)


@settings(deadline=None, max_examples=15)
@given(st.sampled_from(CASES), st.booleans(), st.data())
def test_every_form_that_is_written_is_compared(tmp_path_factory, case, chips_lack, data):
    """Read random layouts on all or some chips, with and without the name of the form."""
    text, axes = case
    torus = split_chips(tc.torus(text), math.prod(axes.values()))
    there = data.draw(st.permutations(range(torus.n_nodes)))
    n = math.prod(axes.values())
    devices = default_devices(torus)
    if chips_lack:
        kept = sorted(there[: data.draw(st.integers(n, len(there)))])
        devices = find_devices(torus, torus.coords[devices.nodes][kept], kept)
    nodes = data.draw(st.permutations(devices.nodes.tolist()))[:n]
    sends = [MeshTraffic("exchange", 1e6, tuple(axes))]
    answer = tc.mesh(torus, axes, sends, devices=devices, compare=np.array(nodes), simulate=0)
    answer = replace(answer, layouts=(answer.compared,))
    folder = tmp_path_factory.mktemp("forms")
    for form in filter(None, FORMS):
        name, equals, file = form.rpartition("=")
        path = folder / file
        # Some launchers cannot express every layout.
        with suppress(InputError):
            write_files(answer, [(name or _SUFFIXES.get(path.suffix, ""), str(path))])
        if not path.exists():
            assert name in ("vcoord", "rank-order", "flux")
            continue
        for asked in (f"{name}{equals}{path}", str(path))[: 1 if form.startswith(NAMED) else 2]:
            found = read_layout(asked, torus, devices)
            assert found.node.tolist() == nodes, asked
        path.unlink()


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("w.npy", np.arange(8.0), "found float64 [0.0, 1.0, 2.0, 3.0], expected an array of whole"),
        ("w.npy", np.arange(8) - 1, "found int64 [-1, 0, 1, 2], expected an array of whole"),
        ("w.npz", np.arange(8), "binary file: expected text, or an array of NumPy (.npy)"),
        ("w.json", [[0, 1, 2, 3], [4, 5, 6, 99]], "--devices-per-chip N for chips of N devices"),
        ("", None, "an empty path"),
    ],
)
def test_a_layout_that_cannot_be_read_names_what_mesh_takes(
    tmp_path, capsys, name, values, message
):
    path = tmp_path / name if name else ""
    if name == "w.json":
        path.write_text(json.dumps(values))
    elif name:
        (np.save if name == "w.npy" else np.savez)(path, values)
    words = [*ASKED, "--traffic", "tensor:exchange:4MB"]
    assert run(*words, "--compare", str(path)) == 2
    assert message in capsys.readouterr().err


def test_an_order_of_ranks_is_not_taken_for_devices(tmp_path):
    path = tmp_path / "MPICH_RANK_ORDER"
    path.write_text("1,2,0,3\n")
    torus = tc.torus("tpu_v5e:2x2")
    assert read_layout(str(path), torus).node.tolist() == [2, 0, 1, 3]
    path = path.rename(tmp_path / "ranks.txt")
    assert read_layout(str(path), torus).node.tolist() == [2, 1, 0, 3]
    path.write_text("what\n")
    with pytest.raises(InputError, match=r"--compare [\w-]+=\S+ranks.txt"):
        read_layout(str(path), torus)


def test_a_reader_that_has_gone_is_no_error_of_a_plugin():
    """A pipe whose reader ends after a line, as ``head -1`` does."""
    code = "from toruscast.cli import main; main()"
    words = ["mesh", *ASKED, "--traffic", SENT]
    piped = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", code, *words], **piped) as running:
        running.stdout.close()
        assert running.stderr.read() == b""
    assert running.returncode == 1


def test_the_program_makes_the_mesh_that_was_meant_in_jax(tmp_path):
    pytest.importorskip("jax", reason="JAX is not installed")
    answer = tc.mesh(tc.torus("tpu_v5e:4x4"), {"data": 2, "tensor": 8}, "tensor:allreduce:64MB")
    check = (
        "import os\n"
        "os.environ['XLA_FLAGS'] = '--xla_force_host_platform_device_count=16'\n"
        "os.environ['JAX_PLATFORMS'] = 'cpu'\n"
        f"{answer.jax_program()}"
        "import json\n"
        "ids = [[device.id for device in row] for row in mesh.devices]\n"
        "print(json.dumps([ids, mesh.axis_names]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", check], capture_output=True, text=True, check=True, timeout=300
    )
    ids, names = json.loads(done.stdout)
    assert ids == answer.ids.tolist()
    assert tuple(names) == ("data", "tensor")
    # Neighbours along the tensor axis are neighbours in the slice.
    coords = answer.torus.coords[answer.devices.nodes[np.array(ids)]]
    assert (np.abs(np.diff(coords, axis=1)).sum(axis=2) == 1).all()
