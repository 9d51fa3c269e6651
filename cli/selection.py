"""Features named on the command line: single ones, named sets, and what a plugin brings."""

from __future__ import annotations

from collections.abc import Iterable

from .names import closest

MINE = "mine"


def names_of(
    text: str, mine: tuple[str, ...] = (), known: Iterable[str] | None = None
) -> tuple[str, ...]:
    """Return the features of names joined by commas or plus signs, each once.

    Parameters
    ----------
    text : str
        Features and named sets; "mine" stands for the plugin's features.
    mine : tuple of str
        Those.
    known : iterable of str, optional
        Features that exist; the registered ones if not given.

    Raises
    ------
    InputError
        If one is neither a feature nor a set, naming similar ones.

    Examples
    --------
    >>> names_of("prior+max_FIFO")
    ('max_dilation', 'avg_bytes', 'max_bytes', 'max_FIFO')
    """
    from toruscast.errors import InputError
    from toruscast.features import FEATURES
    from toruscast.training import FEATURE_SETS

    features = tuple(FEATURES if known is None else known)
    sets: dict[str, tuple[str, ...]] = {**FEATURE_SETS, **({MINE: mine} if mine else {})}
    found: list[str] = []
    for part in (word.strip() for word in text.replace("+", ",").split(",")):
        if part in sets:
            found += sets[part]
        elif part in features:
            found.append(part)
        elif part == MINE:
            raise InputError("no features of your own", found=MINE, expected="--plugin FILE.py")
        else:
            similar = closest(part, (*sets, *features), f"a name in {', '.join(sets)} or a feature")
            raise InputError("unknown feature or feature set", found=part, expected=similar)
    return tuple(dict.fromkeys(found))


def check_use(mine: tuple[str, ...], wanted: Iterable[str] | None) -> None:
    """Raise if features are named and none of them is the user's own, though there are some."""
    from toruscast.errors import InputError

    if mine and wanted is not None and not set(mine) & set(wanted):
        raise InputError(
            "no feature of --plugin is used",
            found=", ".join(mine),
            expected=f"--features with one, such as prior+{MINE}",
        )


def load_plugin(path: str | None) -> tuple[str, ...]:
    """Run a Python file, if one is given, and return the features that it registers.

    Raises
    ------
    InputError
        If the file is missing, fails, or registers none; with the file's own line where it failed.
    """
    import runpy
    import traceback
    from pathlib import Path

    from toruscast.errors import InputError, MissingFileError
    from toruscast.features import FEATURES

    if path is None:
        return ()
    if not Path(path).is_file():
        raise MissingFileError("no such file", file=path, expected="a Python file")
    before = set(FEATURES)
    try:
        runpy.run_path(path)
    except (Exception, SystemExit) as error:
        lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == path]
        line = lines[-1] if lines else getattr(error, "lineno", None)
        found = f"{type(error).__name__}: {error}"
        raise InputError("plugin failed", file=path, line=line, found=found) from None
    added = tuple(name for name in FEATURES if name not in before)
    if not added:
        expected = "a function under toruscast.features.register"
        raise InputError("plugin registers no feature", file=path, expected=expected)
    return added
