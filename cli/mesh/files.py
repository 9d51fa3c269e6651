"""Files that ``toruscast mesh`` writes its best layout to."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..output import Output, check_writable, write_text

if TYPE_CHECKING:
    from toruscast.training.mesh import MeshForecast

# Forms of our own; every other one is a format of mappings.
_SUFFIXES = {".json": "json", ".npy": "npy", ".py": "python"}
_FORMS = (*_SUFFIXES.values(), "neuron")

Targets = list[tuple[str, str]]


def check_files(files: tuple[str, ...], output: Output, report: str | None) -> Targets:
    """Return form and path of each file; the form is empty where the suffix names it.

    Raises
    ------
    InputError
        If a file cannot be written or no form is known.
    UsageError
        If two files are one.
    """
    targets: Targets = []
    for text in files:
        form, equals, path = text.partition("=")
        if not equals:
            form, path = "", text
        form = form.strip() or _SUFFIXES.get(Path(path).suffix.lower(), "")
        if form not in _FORMS:
            _check_dialect(form, path)
        targets.append((form, path))
    paths = [path for _, path in targets]
    if len({*paths}) < len(paths):
        raise click.UsageError("--write names the same file twice")
    output.check({"--report": report}, also={f"--write {path}": path for path in paths})
    for path in paths:
        check_writable(path)
    return targets


def write_files(answer: MeshForecast, targets: Targets) -> dict[str, str]:
    """Write the best layout to each file, and return how each is used where it needs a word."""
    advice = {}
    for form, path in targets:
        if form == "json":
            write_text(answer.ids_as_json(), path)
        elif form == "python":
            write_text(answer.jax_program(), path)
        elif form == "neuron":
            write_text(answer.rank_list(), path)
        elif form == "npy":
            _write_array(answer, path)
        else:
            from toruscast.mapping.formats import write_mapping

            advice[path] = write_mapping(
                answer.mapping, path, form or None, torus=answer.torus, shape=answer.axes.sizes
            )
    return advice


def _write_array(answer: MeshForecast, path: str) -> None:
    import numpy as np

    from toruscast.mapping.formats import atomic_path

    with atomic_path(path) as temporary, temporary.open("wb") as file:
        np.save(file, answer.ids, allow_pickle=False)


def _check_dialect(form: str, path: str) -> None:
    """Raise early what writing a mapping would raise."""
    from toruscast.mapping.formats.registry import dialect_to_write

    dialect_to_write("mapping", path, form or None)
