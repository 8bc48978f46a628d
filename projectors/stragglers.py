"""What a step loses because it waits for the slowest node."""

from __future__ import annotations

from statistics import NormalDist


def slowest_excess(nodes: int, spread: float) -> float:
    """How much longer than the mean the slowest of `nodes` takes, over the mean: `spread` times the expected maximum of that many
    standard normals.

    The maximum after Blom (Statistical Estimates and Transformed Beta-Variables, 1958): the quantile of (n - 3/8) / (n + 1/4).
    """
    if nodes <= 1 or spread <= 0:
        return 0.0
    return spread * NormalDist().inv_cdf((nodes - 0.375) / (nodes + 0.25))
