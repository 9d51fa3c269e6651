"""What orders the mappings of applications that no model saw."""

from ..study import Study
from . import orders

STUDY = Study(
    name="unseen",
    title="Order of the mappings of unseen applications",
    text=(
        "Applications of twelve kinds are drawn at random, on tori of two to five dimensions, "
        "with short and long messages, deterministic and adaptive routing, and dependent rounds. "
        "The correct order is that of the simulation with real packets. **All times are "
        "simulated; none was measured on a machine.** The default model was trained on other "
        "graphs of five of these kinds: unstructured meshes, multigrids, transposes, octrees and "
        "sharded models. The other seven kinds are not in its training set."
    ),
    needs="nothing",
    parts={"What orders": orders.run},
)
