"""What the flow-level simulator knows: its messages, and how far they have come.

Letters in the comments: M messages, T tasks, R rounds, Q places that messages share (links, FIFOs,
receiving nodes), H the places of all messages, one after the other.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

# Places of the clock, and of the counts.
NOW, SINCE, NEXT = 0, 1, 2
EVENTS, ACTIVE, CHANGED, ARRIVED = 0, 1, 2, 3


class Flows(NamedTuple):
    """What stays as it is. Messages stand in the order of task, round and turn."""

    round: NDArray[np.int64]  # (M,)
    task: NDArray[np.int32]  # (M,)
    receiver: NDArray[np.int32]  # (M,) task
    software: NDArray[np.float64]  # (M,) seconds
    copying: NDArray[np.float64]  # (M,) seconds within the node, below 0 for the others
    asking: NDArray[np.float64]  # (M,) seconds of a question, as of its answer, below 0 for none
    latency: NDArray[np.float64]  # (M,) seconds
    weight: NDArray[np.float64]  # (M,) what its share of a place is proportional to
    first: NDArray[np.int64]  # (M + 1,) where its places begin
    place: NDArray[np.int32]  # (H,)
    part: NDArray[np.float32]  # (H,) of the message that goes there
    capacity: NDArray[np.float64]  # (Q,) bytes a second
    thread: NDArray[np.int64]  # (T,) that hands over a task's messages


class FlowState(NamedTuple):
    """What changes."""

    clock: NDArray[np.float64]  # (3,) seconds
    counts: NDArray[np.int64]  # (4,)
    missing: NDArray[np.int32]  # (R, T) what a task still waits for in a round
    entered: NDArray[np.int64]  # (T,) round
    following: NDArray[np.int64]  # (T + 1,) next message to hand over
    free: NDArray[np.float64]  # (threads,) when
    asked: NDArray[np.int64]  # (T,) a message that waits for the receiver's round
    behind: NDArray[np.int64]  # (M,) another
    handed_over: NDArray[np.float64]  # (M,)
    begun: NDArray[np.float64]  # (M,)
    left: NDArray[np.float64]  # (M,) bytes
    rate: NDArray[np.float64]  # (M,) bytes a second
    end: NDArray[np.float64]  # (M,) if rates stay as they are
    arrived: NDArray[np.float64]  # (M,)
    active: NDArray[np.int64]  # (M,) messages that flow
    event_time: NDArray[np.float64]  # (M + T,) a heap
    event: NDArray[np.int64]  # (M + T,) message or task, and what happens
    sharing: NDArray[np.int64]  # (Q,) messages without a rate yet
    free_part: NDArray[np.float64]  # (Q,) bytes a second that nobody has yet
    wanted: NDArray[np.float64]  # (Q,) sum of their weights
    level: NDArray[np.float64]  # (Q,) bytes a second and weight that each would get
    held_up: NDArray[np.bool_]  # (Q,) a message gets less elsewhere
    in_use: NDArray[np.int32]  # (Q,) places
    unshared: NDArray[np.int64]  # (M,) messages without a rate yet
    least: NDArray[np.int32]  # (M,) place where a message gets least
    lowest: NDArray[np.int64]  # (Q,) places, a heap by `height`
    height: NDArray[np.float64]  # (Q,) their levels, or less
    sharer: NDArray[np.int32]  # (H,) messages without a rate, place by place
    sharers: NDArray[np.int64]  # (Q, 2) where those of a place begin and end
