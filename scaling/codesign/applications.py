"""Requirement models of five applications [Calotoiu18], and the choices made in reading them.

The source gives the largest terms of each model, without the base of the logarithms. Parts of its
table are hard to read; the notes of an application tell what was chosen.
"""

from __future__ import annotations

from toruscast.errors import InputError

from .requirements import Application

_CONSTANT = "stack_distance: constant, without a unit; only its ratio of 1 means anything"
_MODELS: dict[str, tuple[dict[str, str], tuple[str, ...]]] = {
    "kripke": (
        {
            "bytes_used": "1e5 * n",
            "flop": "1e7 * n",
            "bytes_sent": "1e4 * n",
            "loads_stores": "1e8 * n + 1e5 * n * p",
            "stack_distance": "1",
        },
        (_CONSTANT,),
    ),
    "lulesh": (
        {
            "bytes_used": "1e5 * n * log(n)",
            "flop": "1e5 * n * log(n) * p**0.25 * log2(p)",
            "bytes_sent": "1e3 * n * p**0.25 * log2(p)",
            "loads_stores": "1e5 * n * log(n) * log2(p)",
            "stack_distance": "1",
        },
        (
            "logarithms of n are natural, which gives the published largest problems of two "
            "systems; those of p have base 2, which gives the published wall time of the "
            "vector system",
            _CONSTANT,
        ),
    ),
    "milc": (
        {
            "bytes_used": "1e6 * n",
            "flop": "1e10 * n + 1e7 * n * log2(p)",
            "bytes_sent": "1e4 * allreduce(p) + 1e4 * bcast(p) + 1e9 * n",
            "loads_stores": "1e11 + 1e8 * n * log2(n) + 1e5 * n * p**1.5",
            "stack_distance": "1e-10 * n",
        },
        (
            "loads_stores: the last term reads 1e5 p^1.5; with n p^1.5 all three published ratios "
            "come out, without n at most one on any base",
            "stack_distance: the exponent of 1e-10 is doubtful; nothing else depends on it",
        ),
    ),
    "relearn": (
        {
            "bytes_used": "1e6 * n**0.5",
            "flop": "1e3 * n * log2(n) * log2(p) + p",
            "bytes_sent": "1e5 * allreduce(p) + 10 * alltoall(p) + 10 * n",
            "loads_stores": "1e6 * n * log2(n) + 1e5 * p * log2(p)",
            "stack_distance": "1",
        },
        (_CONSTANT,),
    ),
    "icofoam": (
        {
            "bytes_used": "1e3 * n + 1e2 * n * p * log2(p)",
            "flop": "1e8 * n**1.5 * p**0.5",
            "bytes_sent": "n**0.5 * allreduce(p) + p**0.5 * log2(p) + n * p**0.375",
            "loads_stores": "1e8 * n * log2(n) * p**0.5 * log2(p)",
            "stack_distance": "1",
        },
        (
            "bytes_used: the last term reads 1e2 p log p; with n p log p two of the three "
            "published problem sizes come out, without n at most one on any base",
            "bytes_sent: the coefficients cannot be read and are taken as 1",
            _CONSTANT,
        ),
    ),
}


def application_names() -> list[str]:
    """Return the names of the applications with published models.

    Examples
    --------
    >>> application_names()
    ['kripke', 'lulesh', 'milc', 'relearn', 'icofoam']
    """
    return list(_MODELS)


def application(name: str) -> Application:
    """Return the requirement models of a published application.

    Parameters
    ----------
    name : str
        One of `application_names`.

    Returns
    -------
    Application
        The largest terms of its models, as in [Calotoiu18]; ``notes`` names doubtful readings.

    Raises
    ------
    InputError
        If there is no such application.

    Examples
    --------
    >>> application("kripke").largest(p=1e6, memory=2e9)
    20000.0
    """
    if name not in _MODELS:
        raise InputError("unknown application", found=name, expected=", ".join(application_names()))
    return Application(name, *_MODELS[name])
