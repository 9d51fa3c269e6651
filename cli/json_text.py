"""JSON as every program can read it."""

from __future__ import annotations

import json
import math
from typing import Any


def json_text(content: Any, indent: int | None = 2) -> str:
    r"""Return JSON that ends a line: NumPy's numbers as numbers, and no number as null.

    Examples
    --------
    >>> json_text({"a": (1.0, float("nan"))}, indent=None)
    '{"a": [1.0, null]}\n'
    """
    return json.dumps(_plain(content), indent=indent, allow_nan=False) + "\n"


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value
