"""Probabilities of disagreement by quadrature and by drawing planes, in float64. Shares nothing
with the package.
"""

import itertools
import math

import numpy as np

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(60)


def _ball(dimension):
    return math.pi ** (dimension / 2) / math.gamma(dimension / 2 + 1)


def by_directions(x, z, radius):
    """The volume in polar coordinates: one angle in the plane of O, x and z, integrated piece by
    piece; relatively accurate for near points too.
    """
    x, z = np.asarray(x, np.float64), np.asarray(z, np.float64)
    dimension = len(x)
    if (x == z).all():
        return 0.0
    first = x - z
    first = first / np.abs(first).max()
    first = first / math.hypot(*first)
    rest = x if math.hypot(*x) > math.hypot(*z) else z
    rest = rest - (rest @ first) * first
    rest = rest - (rest @ first) * first
    size = math.hypot(*rest)
    # less is rounding
    second = rest / size if size > 1e-11 * math.hypot(*x, *z) else np.zeros(dimension)
    distance = (x - z) @ first
    a, b = np.array([x @ first, x @ second]), np.array([z @ first, z @ second])
    kinks = {
        math.atan2(sign * p[0], -sign * p[1]) % (2 * math.pi)
        for p in (a, b)
        for sign in (1, -1)
        if p.any()
    }
    breaks = sorted(kinks | {0.0, math.pi / 2, 1.5 * math.pi, 2 * math.pi})
    total = 0.0
    for low, high in itertools.pairwise(breaks):
        angles = 0.5 * (high - low) * _NODES + 0.5 * (high + low)
        u = np.stack([np.cos(angles), np.sin(angles)])
        reach_a, reach_b = a @ u, b @ u
        both = (reach_a > 0) & (reach_b > 0)
        powers = sum(
            np.maximum(reach_a, 0) ** k * np.maximum(reach_b, 0) ** (dimension - 1 - k)
            for k in range(dimension)
        )
        apart = np.abs(np.maximum(reach_a, 0) ** dimension - np.maximum(reach_b, 0) ** dimension)
        values = np.where(both, distance * np.abs(u[0]) * powers, apart)
        total += 0.5 * (high - low) * (_WEIGHTS @ values)
    # the integral of cos^d over it
    half_turn = math.sqrt(math.pi) * math.gamma((dimension + 1) / 2) / math.gamma(dimension / 2 + 1)
    return _ball(dimension) * total / half_turn / (4 * radius) ** dimension


def by_caps(x, z, radius):
    """Two balls and the two caps that they have in common, each cap sliced by quadrature: far
    points only, as volumes are subtracted.
    """
    x, z = np.asarray(x, np.float64), np.asarray(z, np.float64)
    dimension = len(x)
    centres, radii = (x / 2, z / 2), (math.hypot(*x) / 2, math.hypot(*z) / 2)
    apart = math.hypot(*(centres[0] - centres[1]))
    volumes = [_ball(dimension) * r**dimension for r in radii]
    if apart >= radii[0] + radii[1]:
        common = 0.0
    elif apart <= abs(radii[0] - radii[1]):
        common = min(volumes)
    else:
        offset = (apart**2 + radii[0] ** 2 - radii[1] ** 2) / (2 * apart)
        common = _cap(radii[0], offset, dimension) + _cap(radii[1], apart - offset, dimension)
    return (volumes[0] + volumes[1] - 2 * common) / (2 * radius) ** dimension


def _cap(radius, offset, dimension):
    low = math.asin(max(-1.0, min(1.0, offset / radius)))
    angles = 0.5 * (math.pi / 2 - low) * _NODES + 0.5 * (math.pi / 2 + low)
    slices = (
        _ball(dimension - 1) * radius**dimension * np.cos(angles) ** dimension
        if dimension > 1
        else radius * np.cos(angles)
    )
    return 0.5 * (math.pi / 2 - low) * (_WEIGHTS @ slices)


def draw_planes(dimension, radius, num_draws, seed):
    """Nearest points r [num_draws, d], uniform in the cube."""
    return np.random.default_rng(seed).uniform(-radius, radius, (num_draws, dimension))


def sides(points, nearest):
    """Which points [k, d] lie beyond the plane of each nearest point [n, d], [k, n] bool."""
    return np.asarray(points, np.float64) @ nearest.T > (nearest**2).sum(axis=1)[None, :]


def sampling_scheme(points, labels, example_weights, queries, nearest, seed):
    """F_d by scheme (1) of Naish-Guzman, Holden and Paquet: draw an example by d and a plane with
    h(x_i) = y_i, and
    average h; [k], with its standard errors [k].

    A plane and a sign that give the wrong answer are turned round: among h and -h, equally likely,
    the restriction keeps one. Scheme (1) integrates over all h, half of which are kept.
    """
    rng = np.random.default_rng(seed)
    drawn = rng.choice(len(points), size=len(nearest), p=example_weights / np.sum(example_weights))
    beyond_example = np.einsum("nd,nd->n", np.asarray(points, np.float64)[drawn], nearest) > (
        nearest**2
    ).sum(axis=1)
    beyond = sides(queries, nearest)
    votes = (
        np.where(beyond == beyond_example[None, :], 1.0, -1.0)
        * np.asarray(labels)[drawn][None, :]
        / 2
    )
    return votes.mean(axis=1), votes.std(axis=1) / math.sqrt(len(nearest))
