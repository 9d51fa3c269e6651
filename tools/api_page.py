"""The page of the Python interface: a place for each public name, filled from its docstring."""

from __future__ import annotations

import inspect

import toruscast

# Modules that are imported by their own names, for a framework each.
# What all results have, and the object that `Result.plot` returns.
RESULTS = ("toruscast.notebook.Result", "toruscast.answers.figures.Figure")
FRAMEWORKS = ("toruscast._mesh.jax.make_mesh", "toruscast._mesh.torch_xla.mesh_ids")
HEAD = """# Python

What `import toruscast as tc` offers. `tc.mapping`, `tc.routing`, `tc.simulation` and
`tc.training` hold more; their docstrings describe it.
"""


def page() -> str:
    """Return the page; the site puts the docstrings where ``:::`` stands."""
    places = [HEAD]
    for name in sorted(toruscast.__all__):
        value = getattr(toruscast, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            places.append(f"\n::: {value.__module__}.{value.__qualname__}\n")
    places += [f"\n::: {name}\n" for name in (*RESULTS, *FRAMEWORKS)]
    return "".join(places)
