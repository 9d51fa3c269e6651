"""The experiments of Jain et al., SC'13, on simulated samples."""

from functools import partial

from ..study import Study
from .hybrids import hybrid_sets, pf3d, single
from .plan import LARGE, SMALL
from .reach import counters, importance, learning_curve, reliability
from .together import mixture, transfer, unseen

STUDY = Study(
    name="sc13",
    title="The experiments of Jain et al., SC'13, on simulated times",
    text=(
        "Jain, Bhatele, Robson, Gamblin and Kale ran benchmarks under 84 mappings on Blue Gene/Q "
        "and learned their times from counters of the network. Here **times and counters come from "
        "toruscast's packet simulator, not from a machine**: one exchange, 16 tasks a node, "
        "mappings of all strategies. RCC is the share of pairs in the right order."
    ),
    needs="samples",
    parts={
        "Single features": single,
        "Hybrid feature sets, 16,384 tasks": partial(hybrid_sets, tasks=SMALL),
        "Hybrid feature sets, 65,536 tasks": partial(hybrid_sets, tasks=LARGE),
        "pF3D": pf3d,
        "One model for benchmarks and sizes": mixture,
        "From 16,384 to 65,536 tasks": transfer,
        "A benchmark never seen": unseen,
        "Without the simulator's counters": counters,
        "How many mappings must be run": learning_curve,
        "Intervals and probabilities": reliability,
        "Which features carry the forecast": importance,
    },
)
