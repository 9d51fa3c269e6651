"""The state of the flow-level simulator: its messages, and their progress.

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
    """Constant data. Messages are ordered by task, round and turn."""

    round: NDArray[np.int64]  # (M,)
    task: NDArray[np.int32]  # (M,)
    receiver: NDArray[np.int32]  # (M,) task
    software: NDArray[np.float64]  # (M,) seconds
    copying: NDArray[np.float64]  # (M,) seconds within the node, below 0 for the others
    asking: NDArray[np.float64]  # (M,) seconds of a question, and of its answer; below 0 for none
    latency: NDArray[np.float64]  # (M,) seconds
    weight: NDArray[np.float64]  # (M,) weight: its share of a place is proportional to it
    first: NDArray[np.int64]  # (M + 1,) where its places begin
    place: NDArray[np.int32]  # (H,)
    part: NDArray[np.float32]  # (H,) part of the message that goes there
    capacity: NDArray[np.float64]  # (Q,) bytes a second
    thread: NDArray[np.int64]  # (T,) thread that hands over a task's messages


class FlowState(NamedTuple):
    """Changing data."""

    clock: NDArray[np.float64]  # (3,) seconds
    counts: NDArray[np.int64]  # (4,)
    missing: NDArray[np.int32]  # (R, T) messages that a task still waits for in a round
    entered: NDArray[np.int64]  # (T,) round
    following: NDArray[np.int64]  # (T + 1,) next message to hand over
    free: NDArray[np.float64]  # (threads,) seconds at which each is free
    asked: NDArray[np.int64]  # (T,) first message that waits for the receiver's round
    behind: NDArray[np.int64]  # (M,) next such message
    handed_over: NDArray[np.float64]  # (M,)
    begun: NDArray[np.float64]  # (M,)
    left: NDArray[np.float64]  # (M,) bytes
    rate: NDArray[np.float64]  # (M,) bytes a second
    end: NDArray[np.float64]  # (M,) seconds of its end if rates do not change
    arrived: NDArray[np.float64]  # (M,)
    active: NDArray[np.int64]  # (M,) messages that flow
    event_time: NDArray[np.float64]  # (M + T,) a heap
    event: NDArray[np.int64]  # (M + T,) message or task, and the kind of event
    sharing: NDArray[np.int64]  # (Q,) messages without a rate yet
    free_part: NDArray[np.float64]  # (Q,) bytes a second that no message has yet
    wanted: NDArray[np.float64]  # (Q,) sum of their weights
    level: NDArray[np.float64]  # (Q,) bytes a second that a message gets for a weight of one
    held_up: NDArray[np.bool_]  # (Q,) whether a message gets less at another place
    in_use: NDArray[np.int32]  # (Q,) places
    unshared: NDArray[np.int64]  # (M,) messages without a rate yet
    least: NDArray[np.int32]  # (M,) place where a message gets least
    lowest: NDArray[np.int64]  # (Q,) places, a heap by `height`
    height: NDArray[np.float64]  # (Q,) their levels, or less
    sharer: NDArray[np.int32]  # (H,) messages without a rate, ordered by place
    sharers: NDArray[np.int64]  # (Q, 2) begin and end of those of a place
