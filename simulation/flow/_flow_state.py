"""The state of the flow-level simulator: its messages, and their progress.

Letters in the comments: M messages, T tasks, R rounds, Q places that messages share (links, FIFOs,
receiving nodes), H the places of all messages, one after the other.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

# Places of the clock, and of the counts. Rates are to be worked out again at DEADLINE at the
# latest. All messages that flow get RATES bytes a second, and those that ended since have left
# FREED. BEGAN is the sum of when those that flow began.
NOW, DEADLINE, RATES, FREED, BEGAN = range(5)
EVENTS, ACTIVE, CHANGED, ARRIVED, TOUCHED, SOON, NEWCOMERS, LISTED, FILLED = range(9)
# What is known of a message, in one cache line: weight, bytes a second, bytes left when it got that
# rate, when that was, when it began, where its places begin and end in `place`, when it arrived.
WEIGHT, RATE, LEFT, AT, BEGUN, FIRST, LAST, CAME = range(8)
# Whether a message has a rate; one that was given in this round of sharing may change.
RATED, WITHOUT, LISTED_ONCE, NOT_FLOWING = range(4)
# What is known of a place: bytes a second that nobody has, the weights and the number of the
# messages without a rate, and the level of those that it holds, inf for none.
FREE, WANTED, SHARING, LEVEL = range(4)


class Flows(NamedTuple):
    """What stays as it is. Messages stand in the order of task, round and turn."""

    round: NDArray[np.int64]  # (M,)
    task: NDArray[np.int32]  # (M,)
    receiver: NDArray[np.int32]  # (M,) task
    software: NDArray[np.float64]  # (M,) seconds
    copying: NDArray[np.float64]  # (M,) seconds within the node, below 0 for the others
    asking: NDArray[np.float64]  # (M,) seconds of a question, as of its answer, below 0 for none
    latency: NDArray[np.float64]  # (M,) seconds
    place: NDArray[np.int32]  # (H,)
    part: float  # of a message that goes to each of its places; some are listed twice
    capacity: NDArray[np.float64]  # (Q,) bytes a second
    sharers: NDArray[np.int64]  # (Q + 1,) where the messages of a place begin in `sharer`
    thread: NDArray[np.int64]  # (T,) that hands over a task's messages


class FlowState(NamedTuple):
    """What changes."""

    clock: NDArray[np.float64]  # (5,) by the places above
    counts: NDArray[np.int64]  # (9,)
    missing: NDArray[np.int32]  # (R, T) what a task still waits for in a round
    entered: NDArray[np.int64]  # (T,) round
    following: NDArray[np.int64]  # (T + 1,) next message to hand over
    free: NDArray[np.float64]  # (threads,) when
    asked: NDArray[np.int64]  # (T,) a message that waits for the receiver's round
    behind: NDArray[np.int64]  # (M,) another
    handed_over: NDArray[np.float64]  # (M,)
    message: NDArray[np.float64]  # (M, 8) by the columns above
    turn: NDArray[np.uint8]  # (M,) RATED, WITHOUT or NOT_FLOWING
    event_time: NDArray[np.float64]  # (M + T,) a heap
    event: NDArray[np.int64]  # (M + T,) message or task, and what happens
    shared: NDArray[np.float64]  # (Q, 4) by the columns above
    touched: NDArray[np.int32]  # (Q,) places where messages began or ended since
    is_touched: NDArray[np.bool_]  # (Q,)
    total: NDArray[np.float64]  # (Q,) weights of its messages, below 0 where others flow by now
    holder: NDArray[np.int32]  # (M,) place that holds a message
    held_weight: NDArray[np.float64]  # (Q,) of the messages that it holds
    sharer: NDArray[np.int32]  # (2 H,) messages that flow place by place, then those listed
    n_sharers: NDArray[np.int64]  # (Q,)
    listed: NDArray[np.int32]  # (M,) messages that get new rates, first those that have none
    filled: NDArray[np.int32]  # (Q,) their places
    at: NDArray[np.int64]  # (Q,) where their list begins in `sharer`
    n_at: NDArray[np.int64]  # (Q,)
    new_level: NDArray[np.float64]  # (Q,) of a place once it is full, else inf
    without: NDArray[np.int32]  # those of a place that have no rate yet
    lowest: NDArray[np.int64]  # (Q,) places, a heap by `height`
    height: NDArray[np.float64]  # (Q,) their levels, or less
    soon: NDArray[np.int64]  # (M,) messages with rates, a heap
    soon_end: NDArray[np.float64]  # (M,) when they end
    seat: NDArray[np.int32]  # (M,) where a message stands in that heap
