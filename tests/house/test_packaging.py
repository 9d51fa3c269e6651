"""The recipes for conda-forge and Spack, and the citation, say what pyproject.toml says."""

import ast
import hashlib
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import toruscast

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
RECIPE = (ROOT / "packaging/conda-forge/recipe.yaml").read_text()
SPACK = (ROOT / "packaging/spack/package.py").read_text()
CITATION = (ROOT / "CITATION.cff").read_text()
FILES = ("packaging/conda-forge/recipe.yaml", "packaging/spack/package.py", "CITATION.cff")


def least(words):
    """Name and lower bound of each dependency."""
    pairs = (re.fullmatch(r"([\w-]+)\s*>=\s*([\d.]+)", word) for word in words)
    return {match[1].replace("_", "-").lower(): match[2] for match in pairs}


NEEDED = least(PROJECT["dependencies"])


def test_the_recipe_of_conda_forge_needs_what_the_package_needs():
    run = re.search(r"\n  run:\n((?:    - .*\n)+)", RECIPE)[1]
    found = least(re.findall(r"- (.*)", run))
    assert f">={found.pop('python')}" == PROJECT["requires-python"]
    assert found == NEEDED


def test_the_package_of_spack_needs_what_the_package_needs():
    ast.parse(SPACK)
    found = dict(re.findall(r'depends_on\("py-([\w-]+)@([\d.]+):"\)', SPACK))
    assert found == NEEDED
    assert f">={re.search(r'python@([0-9.]+):', SPACK)[1]}" == PROJECT["requires-python"]


def test_all_name_one_version_licence_and_summary():
    assert PROJECT["version"] == toruscast.__version__
    for text in (RECIPE, SPACK, CITATION):
        assert PROJECT["version"] in text
        assert PROJECT["license"] in text
    for text in (RECIPE, SPACK):
        assert PROJECT["description"] in text


def test_they_are_yaml():
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    assert yaml.safe_load(RECIPE)["package"]["name"] == "toruscast"
    assert yaml.safe_load(CITATION)["references"][0]["year"] == 2013


def test_a_release_is_written_into_them(tmp_path):
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    archive = tmp_path / "toruscast-9.8.7.tar.gz"
    archive.write_bytes(b"all of it")
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); from pathlib import Path; import release;"
    )
    program += "release.main(Path(sys.argv[2]), Path(sys.argv[3]))"
    words = [sys.executable, "-c", program, str(ROOT / "tools"), str(archive)]
    subprocess.run([*words, str(tmp_path)], check=True)
    digest = hashlib.sha256(b"all of it").hexdigest()
    for name in FILES:
        text = (tmp_path / name).read_text()
        assert "9.8.7" in text
        assert PROJECT["version"] not in text
        assert digest in text or name == "CITATION.cff"
