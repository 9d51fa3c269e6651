"""Contention and multigrid on Blue Waters, a Gemini torus."""

from ..study import Study
from . import contention, multigrid

STUDY = Study(
    name="blue_waters",
    title="Contention and multigrid on Blue Waters",
    text=(
        "Blue Waters is a Cray XE6. Its Gemini torus has a different bandwidth along each "
        "dimension. The measured times were published with a study of performance models."
    ),
    needs="data",
    parts={"Bandwidth by dimension": contention.run, "Multigrid": multigrid.run},
    sources=(
        "github.com/bienz2/BlueWatersModel, contention and amg_models, commit "
        "4ecec3e9a1f803e87c4075a487a01afef9819ec3 (BSD 2-Clause)",
    ),
    files=(contention.FILES, multigrid.FILES),
)
