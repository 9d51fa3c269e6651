"""The packet simulator's clock: the length of a tick, and times that are too long for it."""

from __future__ import annotations

import math

import numpy as np

from toruscast.errors import InputError
from toruscast.mapping import Torus
from toruscast.routing.messages import Messages

from ._state import DELIVERED, PARTS, SLOTS, State

_TICKS_A_PACKET = 1024
_TICKS_A_HOP = 64
# Parts of ticks that the shortest packet should take, and those that it must take.
_PARTS_A_PACKET = 128
_LEAST_PARTS = 16
_LARGEST_WHEEL = 2**22
# Nothing in the network may take longer than this many times a packet on the fastest link.
_LARGEST_REACH = 2**23
# The network has carried everything after this many times the result of `carrying`.
_SPARE = 8
_MOST_TICKS = 2**31
# Ticks between two checks of the waits, and the longest wait that a check accepts. A longer wait is
# found before its ticks overflow.
BETWEEN_LOOKS = 2**28
_LONGEST_WAIT = _MOST_TICKS - 2 * BETWEEN_LOOKS
# Parts of a run's ticks are counted in 64 bits.
_LAST_TICK = 2 ** (62 - PARTS)


def clock_of(messages: Messages, torus: Torus, halved: int = 0) -> tuple[float, int]:
    """Return the seconds of a tick, and the ticks of a wheel longer than any delay of the network.

    The longest packet takes a whole number of ticks on the fastest link, so that its rate is exact.
    The shortest one takes many of the parts in which links count. Packets keep 32 bits of their
    ticks, which limits a wait, so ticks are longer in very long runs. The waits are not known
    before the run: if one was too long (`waits_too_long`), ticks are made twice as long.

    Raises
    ------
    InputError
        If something takes too long to be counted in the same ticks as a packet on that link.
    """
    remote = messages.src != messages.dst
    largest_packet = float(messages.wire.max(initial=1.0, where=remote))
    _check_reach(torus, largest_packet)
    longest = carrying(messages, torus)
    horizon = _SPARE * longest
    network = torus.network
    packet = largest_packet / max(torus.bandwidth)
    slowest = largest_packet / min(
        _least_bandwidth(torus), network.memory_bandwidth / network.reception_ports
    )
    smallest = float(messages.wire.min(initial=largest_packet, where=remote & (messages.wire > 0)))
    parts = 2**PARTS * smallest / largest_packet  # of the shortest packet, were a tick the longest
    ticks = _TICKS_A_PACKET
    while ticks < 64 * _TICKS_A_PACKET and (
        ticks * network.hop_latency < _TICKS_A_HOP * packet or ticks * parts < _PARTS_A_PACKET
    ):
        ticks *= 2
    while ticks > 1 and (
        (slowest + network.hop_latency) / packet * ticks > _LARGEST_WHEEL
        or horizon / packet * ticks > _MOST_TICKS
    ):
        ticks //= 2
    ticks >>= halved
    if not ticks:
        raise InputError(
            "packets wait too long for the clock", expected="a larger coarsening (--coarsening)"
        )
    if ticks * parts < _LEAST_PARTS:
        merged = largest_packet > network.payload + network.header
        raise InputError(
            "packets too short for the clock",
            found=f"{smallest:.6g} bytes, the longest {largest_packet:.6g}",
            expected="fewer messages for so few bytes"
            + (", or a smaller coarsening (--coarsening)" if merged else ""),
        )
    tick = packet / ticks
    if longest > _MOST_TICKS * tick:
        raise InputError(
            "too many packets, or too slow a network, for the clock",
            found=f"{longest:.3g} s at one node",
            expected=f"at most {_MOST_TICKS * tick:.3g} s; a larger coarsening (--coarsening)",
        )
    _check_end(messages, torus, horizon, tick)
    reach = (slowest + network.hop_latency) / tick
    return tick, max(64, 2 ** math.ceil(math.log2(reach + 3)))


def waits_too_long(state: State, now: int) -> bool:
    """Return whether a packet has waited for so many ticks that they may soon overflow."""
    on_way = state.packets.packet["route"] != DELIVERED
    on_way[state.packets.free[: state.events.clock[SLOTS]]] = False
    # After 2^31 ticks the packets' own 32 bits overflow, and so does the difference.
    waits = (np.int64(now) - state.packets.packet["since"][on_way]).astype(np.int32)
    return bool(waits.max(initial=0) > _LONGEST_WAIT)


def carrying(messages: Messages, torus: Torus) -> float:
    """Return the seconds that the busiest node needs to send or take its packets.

    They go over the slowest part. If few packets find room behind a link, its rate is that at which
    the room becomes free.
    """
    places = max(1, torus.network.buffer_packets - 1)
    slowest = min(_least_bandwidth(torus), torus.network.memory_bandwidth)
    each = messages.wire + torus.network.hop_latency / places * slowest
    remote = np.where(messages.src != messages.dst, messages.packets * each, 0.0)
    most = max(
        float(np.bincount(ends, remote, minlength=1).max()) for ends in (messages.src, messages.dst)
    )
    return most / slowest


def _least_bandwidth(torus: Torus) -> float:
    """Bytes per second of the slowest link."""
    return min([*torus.bandwidth, *(bandwidth for _, bandwidth in torus.holes.slow)])


def _check_reach(torus: Torus, largest_packet: float) -> None:
    """Raise `InputError` if something is slower than the fastest link by too many orders."""
    network = torus.network
    longest = _LARGEST_REACH * largest_packet / max(torus.bandwidth)
    if network.hop_latency > longest:
        raise InputError(
            "hop_latency too long beside a packet's time on the fastest link",
            found=f"{network.hop_latency:g} s",
            expected=f"at most {longest:.3g} s",
        )
    least = max(torus.bandwidth) / _LARGEST_REACH
    for name, found, ports in (
        ("memory_bandwidth", network.memory_bandwidth, network.reception_ports),
        ("bandwidth", _least_bandwidth(torus), 1),
    ):
        if found < least * ports:
            raise InputError(
                f"{name} too low beside the fastest link's",
                found=f"{found:g} bytes/s",
                expected=f"at least {least * ports:.3g} bytes/s",
            )


def _check_end(messages: Messages, torus: Torus, horizon: float, tick: float) -> None:
    """Raise `InputError` if the run may last longer than ticks can be counted."""
    spans = {
        "software overhead": float(messages.software.sum()),
        "copies at memory_bandwidth": float(messages.nbytes.sum()) / torus.network.memory_bandwidth,
        "packets on links": horizon,
    }
    if sum(spans.values()) > _LAST_TICK * tick:
        raise InputError(
            f"too long for the clock, mostly {max(spans, key=lambda name: spans[name])}",
            found=f"{sum(spans.values()):.3g} s",
            expected=f"at most {_LAST_TICK * tick:.3g} s",
        )
