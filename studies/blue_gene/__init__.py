"""Routes and link counters of Blue Gene."""

from ..study import Study
from . import link_counts, static_routes

STUDY = Study(
    name="blue_gene",
    title="Routes and link counters of Blue Gene",
    text=(
        "Do our computed routes and link loads agree with the machine? This study compares them "
        "with routes that were recorded on Blue Gene/Q, and with packets that were counted on "
        "Blue Gene/P. It measures no times."
    ),
    needs="data",
    parts={"Static routes": static_routes.run, "Packets on links": link_counts.run},
    sources=(
        "github.com/takanori-fujiwara/par-comm-data, commit "
        "5a023c2b5eb406938d0b9bb20d3b0ab9931d2b96 (CC-BY 4.0; cite Fujiwara et al., VAST'17)",
        "github.com/LLNL/boxfish, example-data, commit afa9c9547716909d806a0bd8165bfe896617ca7e "
        "(BSD, LLNL-CODE-599192)",
    ),
    files=(static_routes.ROUTES, static_routes.HOPS, link_counts.FILE),
)
