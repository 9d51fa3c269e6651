"""An installed package brings formats, metrics and strategies by its entry points."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "plugin_package"
BUILD = "from setuptools.build_meta import build_wheel as b; import sys; print(b(sys.argv[1]))"


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The environment of a user who has installed the package."""
    place = tmp_path_factory.mktemp("plugin")
    source, site = place / "source", place / "site"
    subprocess.run(["cp", "-R", PACKAGE, source], check=True)
    command = [sys.executable, "-c", BUILD, str(place)]
    subprocess.run(command, cwd=source, check=True, capture_output=True)
    (wheel,) = place.glob("*.whl")
    subprocess.run([sys.executable, "-m", "zipfile", "-e", str(wheel), str(site)], check=True)
    root = Path(__file__).parents[2]
    return os.environ | {"PYTHONPATH": os.pathsep.join([str(site), str(root / "src")])}


def toruscast(installed, folder, *words):
    command = [sys.executable, "-c", "from toruscast.cli import main; main()", *words]
    return subprocess.run(
        command, cwd=folder, env=installed, capture_output=True, text=True, check=False
    )


def test_a_format_of_another_package_is_read(installed, tmp_path):
    (tmp_path / "app.arrows").write_text("0 -> 1: 4096\n1 -> 0: 512\n")
    done = toruscast(installed, tmp_path, "doctor", "app.arrows")
    assert done.returncode == 0, done.stderr
    assert "arrows" in done.stdout
    assert "2 tasks" in done.stdout


def test_a_metric_and_a_strategy_of_another_package_are_there(installed, tmp_path):
    (tmp_path / "a.edges").write_text("0 1 100\n1 2 100\n2 3 100\n3 0 100\n")
    words = ("--comm", "a.edges", "--torus", "4", "--candidates", "1")
    done = toruscast(installed, tmp_path, "features", *words, "--features", "busiest_share")
    assert done.returncode == 0, done.stderr
    assert "0.25" in done.stdout
    program = """if True:
        import toruscast as tc
        comm = tc.read_comm("a.edges")
        print(tc.strategies.make("mirror", comm, tc.Torus((4,))).node)
    """
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=tmp_path, env=installed, capture_output=True, text=True)
    assert done.stdout == "[3 2 1 0]\n", done.stderr


def test_a_package_that_cannot_be_loaded_is_named(installed, tmp_path):
    program = "from toruscast import plugins; print(plugins.load('machines'))"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=installed, capture_output=True, text=True, check=True)
    assert done.stdout == "()\n"
    assert "machines of torus-plugin are left out: torus_plugin.not_there" in done.stderr
