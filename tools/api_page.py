"""Make a page for each public Python object; `site_hooks.py` adds the pages to the site."""

from __future__ import annotations

import inspect
from typing import Any, NamedTuple

import toruscast

# Modules of the base class of results, of the object that `Result.plot` returns, and of frameworks.
_OTHERS = (
    "toruscast.notebook.Result",
    "toruscast.answers.figures.Figure",
    "toruscast.jax.make_mesh",
    "toruscast.torch_xla.mesh_ids",
)
# Groups of the navigation by the packages in which their objects are defined.
GROUPS = {
    "Rank and plan": ("decision", "notebook", "errors"),
    "Search and explain": ("_search",),
    "Graphs, tori, mappings": ("mapping",),
    "Files and reports": ("formats", "answers"),
    "Simulate": ("simulation",),
    "Metrics": ("_features",),
    "Learn": ("training",),
    "Meshes": ("_mesh", "jax", "torch_xla"),
}
INDEX = "reference/api.md"
HEAD = """# Python

Each name of `import toruscast as tc` has a page. The packages `tc.mapping`, `tc.routing`,
`tc.simulation`, `tc.training` and `tc.scaling` have more names, which their docstrings describe.
"""


class ApiPage(NamedTuple):
    """A public object: its name, full path, group, and the first line of its docstring."""

    name: str
    path: str
    group: str
    summary: str

    @property
    def page(self) -> str:
        """Path of its page in docs. Classes have a folder: names may differ only in case."""
        folder = "classes" if self.name[0].isupper() else "functions"
        return f"reference/api/{folder}/{self.name}.md"


def entries() -> list[ApiPage]:
    """Return all public classes and functions, group by group."""
    public = [getattr(toruscast, name) for name in toruscast.__all__]
    found = [_entry(value) for value in public if inspect.isclass(value) or callable(value)]
    for path in _OTHERS:
        package, _, name = path.rpartition(".")
        found.append(_entry(getattr(__import__(package, fromlist=[name]), name)))
    order = list(GROUPS)
    return sorted(found, key=lambda each: (order.index(each.group), each.name.lower(), each.name))


def _entry(value: Any) -> ApiPage:
    module = value.__module__
    (group,) = (group for group, packages in GROUPS.items() if module.split(".")[1] in packages)
    summary = (inspect.getdoc(value) or "").split("\n\n")[0]
    return ApiPage(
        value.__name__, f"{module}.{value.__qualname__}", group, " ".join(summary.split())
    )


def pages() -> dict[str, str]:
    """Return the pages by path in docs; the site replaces ``:::`` by the docstring."""
    listed, written = "", {}
    for group in GROUPS:
        listed += f"\n## {group}\n\n| name | what it is |\n|---|---|\n"
        for each in entries():
            if each.group == group:
                target = each.page.removeprefix("reference/")
                summary = each.summary.replace("|", "\\|")
                listed += f"| [`{each.name}`]({target}) | {summary} |\n"
                written[each.page] = f"::: {each.path}\n"
    return {INDEX: HEAD + listed, **written}


def navigation() -> list[dict[str, Any]]:
    """Return the part of the navigation that holds these pages."""
    groups: dict[str, list[dict[str, str]]] = {group: [] for group in GROUPS}
    for each in entries():
        groups[each.group].append({each.name: each.page})
    return [{"All names": INDEX}, *({group: listed} for group, listed in groups.items())]
