"""The experiments of Jain et al., SC'13, on simulated samples."""

from functools import partial

from ..study import Study
from .figures import figures
from .hybrids import hybrid_sets, pf3d, single
from .later import later_metric
from .own import own_row
from .plan import LARGE, SMALL
from .reach import counters, importance, learning_curve, reliability
from .samples import built, said
from .together import mixture, transfer, unseen

_PARTS = {
    "What is built": built,
    "Single features": single,
    "Hybrid feature sets, 16,384 tasks": partial(hybrid_sets, tasks=SMALL),
    "Single mappings": figures,
    "What this tool forecasts, and what it costs": own_row,
    "The harder test: mappings of all kinds": partial(hybrid_sets, tasks=SMALL, kind="wide"),
    "Hybrid feature sets, 65,536 tasks": partial(hybrid_sets, tasks=LARGE),
    "pF3D": pf3d,
    "One model for benchmarks and sizes": mixture,
    "From 16,384 to 65,536 tasks": transfer,
    "A benchmark never seen": unseen,
    "Without the simulator's counters": counters,
    "How many mappings must be run": learning_curve,
    "Intervals and probabilities": reliability,
    "Which features carry the forecast": importance,
    "A metric published later": later_metric,
}

STUDY = Study(
    name="sc13",
    title="The experiments of Jain et al., SC'13, on simulated times",
    text=(
        "Jain, Bhatele, Robson, Gamblin and Kale ran benchmarks with 84 mappings on Blue Gene/Q "
        "and learned to predict their times from counters of the network. Here **times and "
        "counters come from toruscast's packet simulator, not from a machine**. Otherwise we "
        "follow the paper. Exchanges follow each other without a barrier. For 16,384 tasks one "
        "exchange warms up and three are measured, and for 65,536 tasks one and one, while the "
        "paper gives means of 100 exchanges. Each node runs 16 tasks. The 84 mappings are "
        "structured as in Rubik, and no two have the same link loads. RCC is the share of pairs "
        "of mappings in the right order."
    ),
    needs="samples",
    parts={title: said(part) for title, part in _PARTS.items()},
)
