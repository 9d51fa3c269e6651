"""Functions take few arguments, and files do not import each other in circles."""

import ast
import re
from collections import Counter
from importlib import import_module
from inspect import ismodule
from pkgutil import iter_modules

import networkx as nx
import pytest
from source_files import ROOT, SOURCE, imported, name_of

from tools import draw_rooms

MOST_ARGUMENTS, MOST_UNFORMATTED = 8, 30
# Not the user's input, but a machine that gives no time.
OTHER_ERRORS = {"RunError"}


def nodes(path, kind):
    return (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, kind))


def is_kernel(path):
    return "kernels" in path.parts or path.stem.endswith("_kernels")


@pytest.mark.parametrize("path", [p for p in SOURCE if not is_kernel(p)], ids=name_of)
def test_functions_take_few_positional_arguments(path):
    many = {}
    for function in nodes(path, ast.FunctionDef):
        arguments = [a.arg for a in (*function.args.posonlyargs, *function.args.args)]
        given = [name for name in arguments if name not in ("self", "cls")]
        # Options of a command arrive by name.
        if len(given) > MOST_ARGUMENTS and "cli" not in path.parts:
            many[function.name] = len(given)
    assert many == {}


def import_graph():
    """An edge for each import of a module of the package, those for type checkers too."""
    modules = {name_of(path): path for path in SOURCE}
    graph = nx.DiGraph()
    for name, path in modules.items():
        for other in imported(path):
            # A module, or what a module or a package defines.
            found = next(
                (each for each in (other, other.rpartition(".")[0]) if each in modules), name
            )
            if found != name:
                graph.add_edge(name, found)
    return graph


def test_files_do_not_import_each_other_in_circles():
    graph = import_graph()
    assert graph.number_of_edges() > len(graph)
    circles = (sorted(part) for part in nx.strongly_connected_components(graph) if len(part) > 1)
    assert list(circles) == []


@pytest.mark.parametrize(
    "package", sorted({path.parent for path in SOURCE} | {ROOT / "src/toruscast"}), ids=name_of
)
def test_no_public_name_is_also_a_module_of_its_package(package):
    """`import package.name as x` gives the module, `from package import name` what it exports."""
    where = name_of(package)
    package = import_module("toruscast" if package.name == "toruscast" else where)
    modules = {each.name for each in iter_modules(package.__path__)}
    public = {name for name in getattr(package, "__all__", ()) if name in modules}
    assert [name for name in public if not ismodule(getattr(package, name))] == []


def test_the_formatter_is_rarely_skipped():
    assert sum(path.read_text().count("# fmt: skip") for path in SOURCE) <= MOST_UNFORMATTED


def test_no_class_name_is_used_twice():
    names = Counter(node.name for path in SOURCE for node in nodes(path, ast.ClassDef))
    assert [name for name, count in names.items() if count > 1] == []


def test_there_is_one_error_family():
    bases = {
        node.name: {ast.unparse(base) for base in node.bases}
        for path in SOURCE
        for node in nodes(path, ast.ClassDef)
        if node.name.endswith("Error")
    }
    family = {"InputError", *bases}
    assert {name for name, own in bases.items() if not own & family} == OTHER_ERRORS


def test_no_code_decides_on_the_wording_of_an_error():
    asked = re.compile(
        r"(error\.message|str\(error\)) (in|not in|==|!=) |in (error\.message|str\(error\))"
    )
    assert [name_of(path) for path in SOURCE if asked.search(path.read_text())] == []


def test_the_ways_of_the_picture_are_in_the_code(monkeypatch):
    draw_rooms.check_ways()
    assert draw_rooms.picture().startswith("<svg")
    wrong = {"graph to answer": (("mapping/torus.py", "decision/ranking.py"),)}
    monkeypatch.setattr(draw_rooms, "WAYS", wrong)
    with pytest.raises(SystemExit, match="does not import"):
        draw_rooms.check_ways()
