"""A mesh of device numbers as the programs take it that run on it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .traffic import MeshAxes


def python_literal(ids: NDArray[np.int64]) -> str:
    """Return the numbers as a nested Python list, a line for each row.

    Examples
    --------
    >>> print(python_literal(np.array([[0, 1], [3, 2]])))
    [[0, 1],
     [3, 2]]
    """
    text = np.array2string(ids, separator=", ", threshold=ids.size + 1, max_line_width=10**9)
    return text if ids.ndim < 3 else text.replace("\n\n", "\n")


def jax_program(ids: NDArray[np.int64], axes: MeshAxes) -> str:
    """Return the lines that make the mesh in a JAX program.

    The numbers are places among all devices sorted by their ids: ``jax.devices()`` itself lists
    those of a slice host by host.

    Examples
    --------
    >>> print(jax_program(np.array([[0, 1], [3, 2]]), MeshAxes(("x", "y"), (2, 2))), end="")
    import jax
    import numpy as np
    <BLANKLINE>
    ids = np.array([[0, 1],
                    [3, 2]])
    devices = np.array(sorted(jax.devices(), key=lambda device: device.id))
    mesh = jax.sharding.Mesh(devices[ids], ('x', 'y'))
    """
    literal = python_literal(ids).replace("\n", "\n" + " " * len("ids = np.array("))
    return (
        "import jax\nimport numpy as np\n\n"
        f"ids = np.array({literal})\n"
        "devices = np.array(sorted(jax.devices(), key=lambda device: device.id))\n"
        f"mesh = jax.sharding.Mesh(devices[ids], {axes.names!r})\n"
    )


def torch_program(ids: NDArray[np.int64], axes: MeshAxes) -> str:
    """Return the lines that make the mesh in a program of PyTorch/XLA.

    Its numbers of devices are those in their names, TPU:0, TPU:1, ...

    Examples
    --------
    >>> print(torch_program(np.array([[0, 1], [3, 2]]), MeshAxes(("x", "y"), (2, 2))), end="")
    import numpy as np
    import torch_xla.distributed.spmd as xs
    <BLANKLINE>
    mesh = xs.Mesh(np.array([0, 1, 3, 2]), (2, 2), ('x', 'y'))
    """
    flat = ", ".join(map(str, ids.ravel().tolist()))
    return (
        "import numpy as np\nimport torch_xla.distributed.spmd as xs\n\n"
        f"mesh = xs.Mesh(np.array([{flat}]), {axes.sizes!r}, {axes.names!r})\n"
    )
