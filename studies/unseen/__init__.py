"""What orders the mappings of applications that no model saw."""

from ..study import Study
from . import orders

STUDY = Study(
    name="unseen",
    title="What orders mappings of applications never seen",
    text=(
        "Applications of twelve kinds are drawn at random, on tori of two to five dimensions, with "
        "short and long messages, both ways of routing, and dependent rounds. The truth is the "
        "simulation with real packets. **All times are simulated; none was measured on a "
        "machine.** The default model was fitted to other graphs of five of these kinds: "
        "unstructured meshes, multigrids, transposes, octrees and sharded models. Of the other "
        "seven it saw none."
    ),
    needs="nothing",
    parts={"What orders": orders.run},
)
