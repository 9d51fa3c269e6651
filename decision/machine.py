"""Posterior of times on a machine, before and after any run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from toruscast.typing import Floats

from .posterior import (
    AVERAGED,
    FULL,
    MACHINE,
    RUN,
    TIME,
    ErrorComponent,
    Hyperparameters,
    Kernel,
    Posterior,
    student_t_scales,
)
from .simulations import HOPS_PER_SECOND, MAX_HOPS, CandidateSimulator, coarse_error

# The log time on a machine is the simulated log time times a slope, plus an error for each
# candidate. These are the standard deviations of the error and of the slope. Errors grow with the
# difference in simulated time, from 0.07 for differences within 5 % to 0.15 beyond 40 %
# (`studies/real_mpi`, `studies/emulated_torus`).
_MACHINE_STD, _SLOPE = 0.07, 0.35
_MACHINE_KERNEL = Kernel(common=0.0, smooth=0.05, independent=0.95)
# Error of using the log time on one network to predict the mean over several networks.
_NETWORK_STD, _NETWORK_KERNEL = 0.1, Kernel(common=0.5, smooth=0.1, independent=0.4)
# Values of the hyperparameters on the grid.
_CONSTANTS, _MACHINE_SCALES = (0.0, 0.3, 1.0, 3.0, 10.0), (0.5, 1.0, 2.0)
_NOISES = (0.005, 0.01, 0.02, 0.04, 0.08)
# Median and geometric standard deviation of the log-normal prior of the noise.
_MEDIAN_NOISE, _NOISE_FACTOR = 0.02, 4.0
ALL_CONSTANTS = (-0.6, -0.3, 0.0, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
"""Values of the constant when runs weight networks. A negative constant means that the simulation
includes more than the measured time, such as a program's start before its timed loop."""
# Maximum seconds of simulation per core before the first run.
_MAX_SECONDS = 5.0


def simulate_in_seconds(simulator: CandidateSimulator) -> int | None:
    """Simulate all candidates with the finest packets that take a few seconds.

    The times are in ``simulator.times``. Return the coarsening, or None if even the coarsest
    packets take too long and nothing is simulated.
    """
    n = len(simulator.mappings)
    max_hops = min(_MAX_SECONDS * simulator.n_jobs * HOPS_PER_SECOND, MAX_HOPS)
    levels = [m for m in simulator.levels if n * simulator.hops(m) <= max_hops]
    if not levels:
        return None
    simulator.simulate(np.arange(n), levels[0])
    return levels[0]


def machine_posterior(
    prior: Posterior,
    simulator: CandidateSimulator | None = None,
    coarsening: int | None = None,
    *,
    noise: float | None = None,
    constants: Sequence[float] = _CONSTANTS,
) -> Posterior:
    """Return the posterior of times on a machine before any run.

    With a ``coarsening``, the times in ``simulator`` replace the prior means, one row per network.
    Candidates without simulated times keep their prior means, shifted by the median change of the
    other candidates. ``noise`` is the relative standard deviation of a run; by default, a grid of
    values.
    """
    errors, means = dict(prior.errors), prior.prior_means
    if simulator is not None and coarsening is not None:
        logs = np.log(simulator.times.T)
        is_known = np.isfinite(logs).all(axis=0)
        shift = np.nanmedian(logs - prior.prior_means[0], axis=1, keepdims=True)
        means = np.where(is_known, logs, prior.prior_means[0] + shift)
        error = coarse_error(coarsening, simulator.packets) if coarsening > 1 else 0.0
        std = np.where(is_known, error, prior.errors["prior"].std)
        errors["prior"] = ErrorComponent(std, prior.errors["prior"].kernel)
    errors[MACHINE] = ErrorComponent(np.full(prior.n, _MACHINE_STD), _MACHINE_KERNEL)
    errors["slope"] = ErrorComponent.from_distance(means.mean(axis=0), _SLOPE)
    # The slope of the machine replaces "distance", the narrower slope of a prediction.
    names = ("prior", MACHINE, "slope")
    noises = _NOISES if noise is None else (noise,)
    # Without simulations, the means are forecasts, and runs show how large their errors are.
    prior_scales = student_t_scales(3) if coarsening is None else np.ones(1)
    grid, weights = hyperparameter_grid(len(means), constants, noises, prior_scales)
    return replace(
        prior,
        prior_means=means,
        errors=errors,
        sources={**prior.sources, RUN: names, MACHINE: names},
        grid=grid,
        grid_weights=weights,
        target=MACHINE,
    )


def hyperparameter_grid(
    n_networks: int, constants: Sequence[float], noises: Sequence[float], prior_scales: Floats
) -> tuple[list[Hyperparameters], Floats]:
    """Return the grid of a machine's hyperparameters, and the prior weight of each point."""
    grid = [
        Hyperparameters(float(prior_scale), constant, scale, noise, network)
        for prior_scale in prior_scales
        for network in range(n_networks)
        for constant in constants
        for scale in _MACHINE_SCALES
        for noise in noises
    ]
    if len(noises) == 1:
        return grid, np.ones(len(grid))
    scores = np.log([point.noise / _MEDIAN_NOISE for point in grid]) / np.log(_NOISE_FACTOR)
    return grid, np.exp(-0.5 * scores**2)


def with_network_error(prior: Posterior) -> Posterior:
    """Convert a prior of the times on one network to one of the mean times over several."""
    std, posterior = np.full(prior.n, _NETWORK_STD), prior
    for source in (TIME, FULL):
        posterior = posterior.with_error(source, "networks", ErrorComponent(std, _NETWORK_KERNEL))
    return posterior


def with_machine_error(posterior: Posterior) -> Posterior:
    """Convert a posterior of the mean times over several networks to one of times on a machine."""
    error = ErrorComponent(np.full(posterior.n, _MACHINE_STD), _MACHINE_KERNEL)
    slope = ErrorComponent.from_distance(posterior.marginal()[0], _SLOPE)
    posterior = posterior.with_error(AVERAGED, MACHINE, error)
    return replace(posterior.with_error(AVERAGED, "slope", slope), target=AVERAGED)
