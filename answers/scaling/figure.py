"""A figure of one scaling model, of the kind that its number of parameters asks for."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping

from toruscast.errors import InputError
from toruscast.scaling import FitOptions, Models

from ..drawing import figure, save
from .contours import draw_contours, draw_slices
from .curve import draw_curve
from .labels import label
from .slice import ModelSlice


def save_model_figure(
    models: Models,
    path: int,
    file: str | os.PathLike[str],
    options: FitOptions | None = None,
    fixed: Mapping[str, float] | None = None,
    level: float = 0.9,
) -> None:
    """Draw one call path's model and measurements, and write it as SVG, PNG or PDF.

    One free parameter: measurements, prediction and interval. Two: contour lines, with the
    measured points. Three: slices stacked along the parameter with the fewest values.

    Parameters
    ----------
    models : Models
    path : int
        Number of the call path.
    file : path-like
        The suffix tells the format.
    options : FitOptions, optional
        Those of the fit.
    fixed : mapping of str to float, optional
        Parameters held at a measured value.
    level : float
        Probability of the interval.

    Raises
    ------
    InputError
        If more than three parameters are free, `fixed` is wrong, or the file cannot be written.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from toruscast.scaling import Measurements, fit_many
    >>> data = Measurements(["p"], [[2], [4], [8], [16], [32]], [[[2.0], [3], [5], [9], [17]]])
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "model.svg"
    >>> save_model_figure(fit_many(data), 0, file)
    >>> "prediction" in file.read_text()
    True
    """
    part = ModelSlice(models, path, options or FitOptions(), fixed or {})
    if len(part.free) > 3:
        raise InputError(
            "a figure shows three parameters at most; hold others at a value",
            found=", ".join(part.free),
        )
    # A title in letters that the font lacks is still a title.
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        with figure(6.4, 5.6 if len(part.free) > 2 else 4.2) as drawn:
            if len(part.free) == 1:
                draw_curve(drawn.add_subplot(), part, level)
            elif len(part.free) == 2:
                draw_contours(drawn, drawn.add_subplot(), part)
            else:
                draw_slices(drawn, drawn.add_subplot(projection="3d"), part)
            lines = [label(part.title), label(part.formula, 100)]
            # A curve has the formula's beside it.
            if len(part.free) > 1 and part.differs:
                lines.append("drawn: the prediction, which is not that of the formula alone")
            if part.held:
                lines.append(label(f"at {part.held}", 100))
            drawn.suptitle("\n".join(lines), fontsize=9, parse_math=False)
            save(drawn, file)
