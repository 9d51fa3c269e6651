"""The posterior of times on a machine: simulations come before any run, runs weigh the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from .posterior import AVERAGED, FULL, MACHINE, RUN, TIME, ErrorTerm, Kernel, Posterior, World
from .simulations import HOPS_PER_SECOND, MAX_HOPS, Simulations, coarse_error

Floats = NDArray[np.float64]

# Error of a machine's time beside the simulated one, in logarithms: of each candidate alone, and a
# slope that all share, since errors grow with the distance in simulated time: .07 for times within
# 5 %, .15 beyond 40 % (`studies/real_mpi`, `studies/emulated_torus`).
_OWN, _SLOPE = 0.07, 0.35
_OWN_KERNEL = Kernel(0.0, 0.05, 0.95)
# Deviation of the mean time over several networks from that of one, in logarithms.
_OF_NETWORKS, _NETWORKS_KERNEL = 0.1, Kernel(0.5, 0.1, 0.4)
# Time that does not depend on the mapping over the network's median, factors of the machine's
# error, and deviations of a run as shares of its time.
_CONSTANTS, _REACHES = (0.0, 0.3, 1.0, 3.0, 10.0), (0.5, 1.0, 2.0)
_NOISES = (0.005, 0.01, 0.02, 0.04, 0.08)
_USUAL_NOISE, _NOISE_FACTOR = 0.02, 4.0
ALL_CONSTANTS = (-0.6, -0.3, 0.0, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
"""Constants where runs weigh networks. A negative one says that the forecast holds more than the
measured time, such as a program's start that is in its trace but not in its loop."""
# Seconds of each core that simulations may take before the first run.
_SECONDS_AT_FIRST = 5.0


def simulate_all(simulations: Simulations) -> int | None:
    """Fill the times of ``simulations`` with the finest packets that take a few seconds.

    Return how many packets are one; None, with nothing simulated, if even the coarsest take longer.
    """
    n = len(simulations.mappings)
    most = min(_SECONDS_AT_FIRST * simulations.n_jobs * HOPS_PER_SECOND, MAX_HOPS)
    found = [m for m in simulations.levels if n * simulations.hops(m) <= most]
    if not found:
        return None
    simulations(np.arange(n), found[0])
    return found[0]


def machine_posterior(
    prior: Posterior,
    simulations: Simulations | None = None,
    coarsening: int = 1,
    *,
    noise: float | None = None,
    constants: Sequence[float] = _CONSTANTS,
) -> Posterior:
    """Return the posterior of times on a machine before any run.

    ``simulations`` of all candidates take the place of the prior; each of their networks may be
    the one of the machine. Candidates without one keep the prior, at the level of the others.
    """
    errors, centres = dict(prior.errors), prior.centres
    if simulations is not None:
        logs = np.log(simulations.times.T)
        is_known = np.isfinite(logs).all(axis=0)
        level = np.nanmedian(logs - prior.centres[0], axis=1, keepdims=True)
        centres = np.where(is_known, logs, prior.centres[0] + level)
        off = coarse_error(coarsening, simulations.packets) if coarsening > 1 else 0.0
        width = np.where(is_known, off, prior.errors["prior"].width)
        errors["prior"] = ErrorTerm(width, prior.errors["prior"].kernel)
    errors[MACHINE] = ErrorTerm(np.full(prior.n, _OWN), _OWN_KERNEL)
    errors["slope"] = ErrorTerm.from_distance(centres.mean(axis=0), _SLOPE)
    # The slope of a machine is wider than that of a prediction, and takes its place.
    contents = ("prior", MACHINE, "slope")
    noises = _NOISES if noise is None else (noise,)
    worlds, weights = machine_worlds(len(centres), constants, noises)
    return replace(
        prior,
        centres=centres,
        errors=errors,
        sources={**prior.sources, RUN: contents, MACHINE: contents},
        worlds=worlds,
        world_weights=weights,
        target=MACHINE,
    )


def machine_worlds(
    n_networks: int, constants: Sequence[float], noises: Sequence[float]
) -> tuple[list[World], Floats]:
    """Return what a machine may be, and how likely: the noise of a run is likely near 2 %."""
    worlds = [
        World(1.0, constant, reach, noise, network)
        for network in range(n_networks)
        for constant in constants
        for reach in _REACHES
        for noise in noises
    ]
    if len(noises) == 1:
        return worlds, np.ones(len(worlds))
    logs = np.log([world.noise / _USUAL_NOISE for world in worlds]) / np.log(_NOISE_FACTOR)
    return worlds, np.exp(-0.5 * logs**2)


def for_several_networks(prior: Posterior) -> Posterior:
    """Return the posterior of the mean time over several networks, before any simulation.

    A model predicts times of one of them, whose bounds do not hold for the others.
    """
    width = np.full(prior.n, _OF_NETWORKS)
    several = replace(prior, bounds=np.zeros(prior.n))
    for source in (TIME, FULL):
        several = several.with_error(source, "networks", ErrorTerm(width, _NETWORKS_KERNEL))
    return several


def with_machine_error(posterior: Posterior) -> Posterior:
    """Return the posterior of times on a machine whose network is only known as a mean of several.

    Beside the simulated mean, the machine has an error for each candidate, and a slope.
    """
    own = ErrorTerm(np.full(posterior.n, _OWN), _OWN_KERNEL)
    slope = ErrorTerm.from_distance(posterior.marginal()[0], _SLOPE)
    found = posterior.with_error(AVERAGED, MACHINE, own).with_error(AVERAGED, "slope", slope)
    return replace(found, target=AVERAGED)
