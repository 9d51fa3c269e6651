"""Presets of machines with a torus network, each from public sources.

A docstring says which numbers are published and where, where sources differ, and which are assumed
because they are not public. Where nothing else is said, packet and buffer sizes and the software
overhead are the defaults of `Network`.
"""

from .anton import anton3
from .bluegene import bluegene_l, bluegene_p, bluegene_q
from .catalogue import Facts, facts
from .cray import gemini, seastar
from .fujitsu import k_computer, tofu_d
from .registry import get, names, preset
from .tenstorrent import galaxy
from .tpu_cube import tpu7x, tpu_v4, tpu_v5p
from .tpu_square import tpu_v2, tpu_v3, tpu_v5e, tpu_v6e
from .trainium import trainium1, trainium2

__all__ = [
    "Facts",
    "anton3",
    "bluegene_l",
    "bluegene_p",
    "bluegene_q",
    "facts",
    "galaxy",
    "gemini",
    "get",
    "k_computer",
    "names",
    "preset",
    "seastar",
    "tofu_d",
    "tpu7x",
    "tpu_v2",
    "tpu_v3",
    "tpu_v4",
    "tpu_v5e",
    "tpu_v5p",
    "tpu_v6e",
    "trainium1",
    "trainium2",
]
