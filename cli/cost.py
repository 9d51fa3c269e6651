"""How long simulations will take, told before they begin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .output import Output

if TYPE_CHECKING:
    from toruscast.mapping import CommGraph, TaskMapping, Torus

# Packet-hops that a core simulates in a minute, at least; minutes from which on it is said.
_HOPS_A_MINUTE = 300e6
_LONG = 2.0
# Mappings whose cost is looked at.
_LOOKED_AT = 5


def tell_cost(
    comm: CommGraph,
    torus: Torus,
    mappings: list[TaskMapping],
    n_simulated: int,
    less: str,
    jobs: int,
    output: Output,
) -> None:
    """Say how long the simulations will take and what takes less, if that is long."""
    if not n_simulated:
        return
    from statistics import mean

    from toruscast.features import RoutedTraffic
    from toruscast.mapping import as_workload

    workload = as_workload(comm)
    some = mappings[:: max(1, len(mappings) // _LOOKED_AT)]
    hops = mean(RoutedTraffic(workload, torus, mapping).packet_hops for mapping in some)
    minutes = n_simulated * hops / (_HOPS_A_MINUTE * jobs)
    if minutes > _LONG:
        output.message(
            f"about {minutes:,.0f} minutes of simulation ahead: {n_simulated} mappings with "
            f"{hops / 1e6:,.0f} million packet-hops each; {less}"
        )
