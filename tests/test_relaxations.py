"""Relaxations of the margin, against exact values in extended precision, optimality conditions, and
solvers that share no code with them.
"""

import functools
import math
from fractions import Fraction
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
import scipy.special

from jboost import relaxations
from jboost.relaxations import certify
from jboost.relaxations.euclidean import EuclideanBall
from marks import slow_but

# of every batch: one shape, one compilation per record and precision; smaller problems are padded
# with garbage
NUM_CASES, SIZE = 48, 400
LONG = np.longdouble
FACTORIES = {
    "hard": relaxations.hard_margin,
    "cap": lambda cap: relaxations.soft_margin(cap),
    "nu": lambda nu: relaxations.soft_margin(nu=nu),
    "ball1": lambda radius: relaxations.norm_ball(1, radius),
    "ball2": lambda radius: relaxations.norm_ball(2, radius),
    "ball3": lambda radius: relaxations.norm_ball(3, radius),
    "penalty1": lambda scale: relaxations.norm_penalty(1, scale),
    "penalty1.5": lambda scale: relaxations.norm_penalty(1.5, scale),
    "penalty2": lambda scale: relaxations.norm_penalty(2, scale),
    "penaltyinf": lambda scale: relaxations.norm_penalty(math.inf, scale),
    "entropy": relaxations.binary_entropy,
    "chi2ball": relaxations.chi_square_ball,
    "chi2penalty": relaxations.chi_square_penalty,
    "klball": relaxations.kl_ball,
    "klpenalty": relaxations.kl_penalty,
    "quadratic": lambda scale: relaxations.from_functions(
        quadratic, quadratic_conjugate, plain_softmax, parameters=scale
    ),
    "offset": lambda scale, offset: relaxations.from_functions(
        offset_value, offset_conjugate, plain_softmax, parameters=(scale, offset)
    ),
}
NAMES = [name for name in FACTORIES if name not in ("quadratic", "offset")]
ORDERS = {"ball2": 2.0, "ball3": 3.0, "penalty2": 2.0, "penalty1.5": 1.5}
BALLS, PENALTIES = ("ball2", "ball3"), ("penalty2", "penalty1.5")
SMOOTH_GAMES = (*ORDERS, "entropy", "quadratic", "chi2ball", "chi2penalty", "klpenalty")
QUICK = ("hard", "nu", "ball1", "penalty1", "penaltyinf")  # whose bounds compile in no time


def quadratic(scale, d, prior):
    return scale * jnp.sum(d * d) / 2


def quadratic_conjugate(scale, z, prior):
    return jnp.sum(z * z) / (2 * scale)


def offset_value(parameters, d, prior):
    """scale * |d - q|^2 / 2 less its value at 0, with q > 0: f* decreases as a coordinate comes
    down to 0.
    """
    scale, offset = parameters
    return scale * jnp.sum(jnp.where(prior > 0, d * d - 2 * d * offset, 0.0)) / 2


def offset_conjugate(parameters, z, prior):
    scale, offset = parameters
    return jnp.sum(jnp.where(prior > 0, jnp.maximum(z + scale * offset, 0.0) ** 2, 0.0)) / (
        2 * scale
    )


def plain_softmax(parameters, margins, strength, prior):
    return prior * jnp.exp((jnp.min(margins) - margins) / strength)


# --- one compiled function for everything ---------------------------------------------------------


class Case(NamedTuple):
    parameters: tuple  # of floats
    margins: np.ndarray  # [m]
    prior: np.ndarray  # [m], sums to one
    strength: float = 1.0
    example_weights: np.ndarray | None = None  # [m]; the prior where None


class Answers(NamedTuple):
    argmin: np.ndarray  # [m]
    argmin_charge: float
    argmin_value: float
    lower_bound: float
    charge: float
    value: float
    is_feasible: bool
    conjugate: float  # of the margins, taken as shortfalls


@jax.jit
@jax.vmap
def _answers(relaxation, margins, strength, prior, example_weights):
    argmin = relaxation.smoothed_argmin(margins, strength, prior)
    return Answers(
        argmin=argmin,
        argmin_charge=jnp.stack(relaxation.charge(argmin, prior)),
        argmin_value=relaxation.value(argmin, prior),
        lower_bound=relaxation.lower_bound(margins, prior),
        charge=jnp.stack(relaxation.charge(example_weights, prior)),
        value=relaxation.value(example_weights, prior),
        is_feasible=relaxation.is_feasible(prior),
        conjugate=relaxation.conjugate(margins, prior),
    )


def ask(name, cases, dtype, garbage=np.nan):
    """`Answers` to every case, by one vmapped call per 48; vectors are cut to the size
    of the case.
    """
    answers = []
    for start in range(0, len(cases), NUM_CASES):
        chunk = cases[start : start + NUM_CASES]
        full = chunk + [chunk[-1]] * (NUM_CASES - len(chunk))

        def pad(vectors, fill, dtype=dtype):
            return jnp.asarray(
                np.stack(
                    [np.concatenate([v, np.full(SIZE - len(v), fill)]) for v in vectors]
                ).astype(dtype)
            )

        margins, prior = pad([c.margins for c in full], garbage), pad([c.prior for c in full], 0.0)
        weights = pad(
            [c.prior if c.example_weights is None else c.example_weights for c in full], 0.0
        )
        parameters = [
            jnp.asarray(np.array(column, dtype))
            for column in zip(*(c.parameters for c in full), strict=True)
        ]
        relaxation = jax.vmap(FACTORIES[name])(*parameters) if parameters else FACTORIES[name]()
        batch = _answers(
            relaxation,
            margins,
            jnp.asarray(np.array([c.strength for c in full], dtype)),
            prior,
            weights,
        )
        batch = Answers(*(np.asarray(leaf) for leaf in batch))
        for index, case in enumerate(chunk):
            one = Answers(*(leaf[index] for leaf in batch))
            assert not np.any(one.argmin[len(case.margins) :]), "weight on padding"
            charge, argmin_charge = (
                np.sum(paid, dtype=LONG) for paid in (one.charge, one.argmin_charge)
            )
            answers.append(
                one._replace(
                    argmin=one.argmin[: len(case.margins)],
                    charge=charge,
                    argmin_charge=argmin_charge,
                )
            )
    return answers


def rounded(case, dtype):
    """The case that the program is handed, in extended precision; shares are what the prior says of
    each other.
    """
    prior = case.prior.astype(dtype).astype(LONG)
    weights = case.prior if case.example_weights is None else case.example_weights
    return Case(
        tuple(LONG(dtype(p)) for p in case.parameters),
        case.margins.astype(dtype).astype(LONG),
        prior / prior.sum(),
        LONG(dtype(case.strength)),
        weights.astype(dtype).astype(LONG),
    )


# --- exact values in extended precision -----------------------------------------------------------


def exact_value(name, parameters, d, prior):
    """f(d) of weights that sum to one, in extended precision; inf where d is not allowed, to the
    last bit.
    """
    size, real = LONG(np.count_nonzero(prior)), prior > 0
    d, prior = d[real], prior[real]
    density = d / prior
    if name in ("cap", "nu"):
        most = parameters[0] * size if name == "cap" else 1 / parameters[0]
        return LONG(0) if np.all(density <= most) else LONG(np.inf)
    if name in ORDERS:
        order = LONG(ORDERS[name])
        norm = size ** (1 / order - 1) * np.sum(prior * density**order) ** (1 / order)
        if name in PENALTIES:
            return parameters[0] * norm
        return LONG(0) if norm <= parameters[0] * (1 + LONG(1e-18)) else LONG(np.inf)
    if name == "penaltyinf":
        return parameters[0] * np.max(density) / size
    if name == "penalty1":
        return parameters[0]
    if name.startswith(("chi2", "kl")):
        terms = (density - 1) ** 2 if name.startswith("chi2") else entropy_of(density)
        divergence = np.sum(prior * terms)
        if name.endswith("penalty"):
            return parameters[0] * divergence
        return LONG(0) if divergence <= parameters[0] else LONG(np.inf)
    if name == "entropy":
        nu, scale = parameters
        coins = nu * density
        if np.any(coins > 1):
            return LONG(np.inf)
        return scale * np.sum(
            prior * (np.log(LONG(2)) + scipy_xlogx(coins) + scipy_xlogx(1 - coins))
        )
    return LONG(0)  # hard, ball1


def entropy_of(x):
    """x log x - x + 1, by its series about 1."""
    apart = x - 1
    return np.where(
        np.abs(apart) < 1e-4, apart**2 / 2 - apart**3 / 6 + apart**4 / 12, scipy_xlogx(x) - x + 1
    )


def scipy_xlogx(x):
    return np.where(x > 0, x * np.log(np.where(x > 0, x, 1)), 0)


def least(name, parameters, margins, prior):
    """The minimum over the simplex of <margins, d> + f(d), in extended precision, by its dual; -inf
    where f is infinite throughout.
    """
    size = LONG(len(margins))
    low = margins.min()
    above = margins - low
    if name in ("hard", "ball1"):
        return low
    if name == "penalty1":
        return low + parameters[0]
    if name in ("cap", "nu"):
        caps = prior * (parameters[0] * size if name == "cap" else 1 / parameters[0])
        order = np.argsort(margins, kind="stable")
        taken = np.minimum(np.cumsum(caps[order]), 1)
        return (
            LONG(np.inf)
            if taken[-1] < 1
            else np.sum(np.diff(taken, prepend=LONG(0)) * above[order]) + low
        )
    if name == "penaltyinf":
        order = np.argsort(above)
        area = np.cumsum(prior[order])
        return low + np.min((parameters[0] / size + np.cumsum(prior[order] * above[order])) / area)
    if name in ORDERS:
        return low + least_by_norm(ORDERS[name], name in BALLS, parameters[0], above, prior, size)
    if name == "chi2ball":
        return least("ball2", (np.sqrt((1 + parameters[0]) / size),), margins, prior)
    if name == "chi2penalty":
        double = 2 * parameters[0]
        reach = bisect(
            lambda t: np.sum(prior * np.maximum(t - above, 0)) < double,
            LONG(0),
            double / prior.sum() + above.max() + 1,
        )
        density = np.maximum(reach - above, 0) / double
        return (
            low
            + np.sum(prior * density * above)
            + parameters[0] * np.sum(prior * (density - 1) ** 2)
        )
    if name == "klpenalty":
        return low - parameters[0] * np.log1p(np.sum(prior * np.expm1(-above / parameters[0])))
    if name == "klball":
        if parameters[0] >= -np.log(prior[above == 0].sum()):
            return low

        def tilted(log_steepness):
            logs = -np.exp(log_steepness) * above
            logs = logs - np.log1p(np.sum(prior * np.expm1(logs)))
            return prior * np.exp(logs), logs

        def is_within(log_steepness):
            weights, logs = tilted(log_steepness)
            return np.sum(weights * logs) < parameters[0]

        return low + np.sum(tilted(bisect(is_within, LONG(-60), LONG(60)))[0] * above)
    assert name == "entropy"
    nu, scale = parameters
    slope = nu * scale
    if nu >= prior.sum():
        return LONG(np.inf)

    def is_short(t):
        return np.sum(prior / (1 + np.exp(np.minimum((above - t) / slope, 1e4)))) < nu

    top = slope
    while is_short(top):
        top *= 2
    reach = bisect(is_short, -50 * slope + slope * np.log(nu), top)
    odds = (reach - above) / slope
    losses = np.maximum(odds, 0) + np.log1p(np.exp(-np.abs(odds))) - np.log(LONG(2))
    return low + (reach - scale * np.sum(prior * losses))


def least_by_norm(order, is_ball, number, above, prior, size):
    """`least` for a norm, less the least margin, by the one threshold of its dual."""
    dual = LONG(order) / (LONG(order) - 1)

    def power(t, exponent):
        return np.sum(prior * np.maximum(t - above, 0) ** exponent)

    if not is_ball:
        target = number**dual / size
        top = 2 * (target / prior.sum()) ** (1 / dual) + above.max() + 1
        return bisect(lambda t: power(t, dual) < target, LONG(0), top)
    radius = number * size ** (1 / dual)
    if radius * prior.sum() ** (1 / dual) <= 1:
        return LONG(np.inf)
    if radius * prior[above == 0].sum() ** (1 / dual) >= 1:
        return LONG(0)

    def rises(t):
        return power(t, dual - 1) * radius < power(t, dual) ** (1 / LONG(order))

    top = LONG(1)
    while rises(top):
        top *= 2
    reach = bisect(rises, LONG(0), top)
    return reach - radius * power(reach, dual) ** (1 / dual)


def bisect(is_low, low, high):
    for _ in range(120):
        middle = low + (high - low) / 2
        if is_low(middle):
            low = middle
        else:
            high = middle
    return low + (high - low) / 2


# --- cases ----------------------------------------------------------------------------------------


def random_prior(rng, size, kind):
    prior = {
        "equal": np.ones(size),
        "random": rng.uniform(0.2, 1, size),
        "unequal": 10 ** rng.uniform(-6, 0, size),
    }[kind]
    return prior / prior.sum()


def random_margins(rng, size, kind):
    return {
        "uniform": rng.uniform(-1, 1, size),
        "equal": np.full(size, rng.uniform(-1, 1)),
        "ties": np.round(rng.uniform(-1, 1, size) * 4) / 4,
        "close": 0.5 + 1e-6 * rng.uniform(-1, 1, size),
        "votes": rng.choice([-1.0, 1.0], (size, 5)) @ rng.dirichlet(np.ones(5)),
    }[kind]


def random_parameters(rng, name, size):
    if name == "hard":
        return ()
    if name == "nu":
        return (rng.choice([rng.uniform(1 / size, 1), 1.0, 0.5]),)
    if name == "cap":
        return (rng.choice([rng.uniform(1 / size, 1), 1 / max(1, size // 2), 1.5]),)
    if name == "ball1":
        return (rng.uniform(1, 2),)
    if name in BALLS:
        room = size ** (1 - 1 / ORDERS[name])
        most = rng.choice([1 + 10 ** rng.uniform(-5, 0), rng.uniform(1, room), 1.0 + 1e-7])
        return (most / room,)
    scale = 10 ** rng.uniform(-3, 1)
    if name in ("chi2ball", "klball"):
        return (10 ** rng.uniform(-4, 1),)
    return (rng.uniform(0.02, 1), scale) if name == "entropy" else (scale,)


def random_cases(name, seed, num_cases=NUM_CASES):
    rng = np.random.default_rng(seed)
    cases = []
    for index in range(num_cases):
        size = int(rng.choice([1, 2, 3, 8, 50, SIZE]))
        prior = random_prior(rng, size, rng.choice(["equal", "random", "unequal"]))
        margins = random_margins(
            rng, size, ["uniform", "equal", "ties", "close", "votes"][index % 5]
        )
        strength = 10.0 ** (rng.uniform(-6, 6) if index % 3 else rng.uniform(-2, 1))
        cases.append(Case(random_parameters(rng, name, size), margins, prior, strength))
    return cases


# --- optimality conditions of the argmin ----------------------------------------------------------


def violation(name, case, d):
    """How far d [m] is from the conditions of Karush, Kuhn and Tucker of the smoothed problem, in
    units of the strength.
    """
    parameters, margins, prior, strength, _ = case
    size = len(prior)
    # 4e-13 of the prior may be mixed in to come into the ball for certain
    keep = d > (1e-5 if name in ("ball2", "chi2ball") else 1e-12)
    order = ORDERS.get(name, 2.0)
    root = size ** (1 / order - 1)
    norm = root * np.sum(prior * (d / prior) ** order) ** (1 / order)
    square = norm**2
    density, margins, prior, d = (d / prior)[keep], margins[keep], prior[keep], d[keep]
    tilt = margins / strength + np.log(density)  # constant where f adds nothing
    if name in ("hard", "ball1", "penalty1"):
        return np.ptp(tilt)
    if name in ("cap", "nu"):
        most = parameters[0] * size if name == "cap" else 1 / parameters[0]
        at_cap = density >= most * (1 - 1e-9)
        if at_cap.all():
            return 0
        free = tilt[~at_cap]
        return max(
            np.ptp(free), np.max(tilt[at_cap] - free.min(), initial=0), np.max(density / most - 1)
        )
    if name == "penaltyinf":
        cut = density >= density.max() * (1 - 1e-9)
        level = (
            tilt[~cut].max()
            if not cut.all()
            else tilt.max() + np.sum(size * prior * (tilt.max() - tilt))
        )
        pressure = size * prior[cut] * (level - tilt[cut])
        total = abs(np.sum(pressure) / (parameters[0] / strength) - 1) if not cut.all() else 0
        return max(np.ptp(tilt[~cut]) if not cut.all() else 0, -pressure.min(), total)
    if name in PENALTIES:
        steep = root * (norm / root) ** (1 - order) * density ** (order - 1)
        return np.ptp(tilt + parameters[0] / strength * steep)
    if name == "chi2penalty":
        return np.ptp(tilt + 2 * parameters[0] / strength * density)
    if name == "klpenalty":
        return np.ptp(tilt + parameters[0] / strength * np.log(density))
    if name == "klball":
        outside = np.sum(prior * entropy_of(density)) / parameters[0] - 1
        if outside < -1e-9 or len(density) == 1:
            return np.ptp(tilt)
        steep = np.log(density)
        centred, tilted = steep - np.sum(d * steep) / d.sum(), tilt - np.sum(d * tilt) / d.sum()
        charge = -np.sum(d * centred * tilted) / np.sum(d * centred**2)
        return max(outside, -charge, np.max(np.abs(tilted + charge * centred)) / (1 + charge))
    if name == "entropy":
        nu, scale = parameters
        coins = nu * density
        inside = coins < 1 - 1e-6  # beyond, rounding of the coin moves its log odds
        level = tilt[inside] + nu * scale / strength * (
            np.log(coins[inside]) - np.log1p(-coins[inside])
        )
        return max(np.ptp(level) if inside.any() else 0, coins.max() - 1)
    assert name in (*BALLS, "chi2ball")
    outside = square / (parameters[0] ** 2 if name in BALLS else (1 + parameters[0]) / size) - 1
    density = density ** (order - 1)
    if outside < -1e-9:
        return np.ptp(tilt)
    columns = np.stack([np.ones_like(density), -density], axis=1) * np.sqrt(d)[:, None]
    (level, charge), *_ = np.linalg.lstsq(columns, tilt * np.sqrt(d), rcond=None)
    if len(np.unique(density.round(9))) == 1:
        level, charge = tilt.mean(), 0
    return max(
        outside,
        -charge,
        np.max(np.abs(tilt + charge * density - level)) / (1 + charge * density.max()),
    )


@pytest.fixture(params=[np.float32, np.float64], ids=["float32", "float64"])
def dtype(request):
    with jax.enable_x64(request.param is np.float64):
        yield request.param


@functools.cache
def exact(name, dtype):
    """Random cases, what the program is handed of each, and the least value of each; the weights of
    the cases are near the prior.
    """
    cases = random_cases(name, 7) + random_cases(name, 8)
    rng = np.random.default_rng(9)
    cases = [
        c._replace(
            example_weights=c.prior * rng.uniform(0.9, 1.1, len(c.prior)) * rng.uniform(0.5, 2)
        )
        for c in cases
    ]
    handed = [rounded(case, dtype) for case in cases]
    return cases, handed, [least(name, c.parameters, c.margins, c.prior) for c in handed]


def units(name, case):
    """What errors are relative to: the scale of the values at hand, 1 at least."""
    return (
        max(1.0, float(case.parameters[-1]))
        if "penalty" in name or name in ("entropy", "klball")
        else 1.0
    )


def test_records_have_structures_of_their_own():
    """`jax.tree_util.register_dataclass` makes them equal, and jit then now and then runs the
    program of one record for another.
    """
    records = [
        factory(*[1.0] * (2 if name in ("entropy", "offset") else name != "hard"))
        for name, factory in FACTORIES.items()
    ]
    structures = [
        jax.tree.structure(record)
        for record in [*records, relaxations.unit_ball(), relaxations.squared_norm(1.0)]
    ]
    for index, one in enumerate(structures):
        again = jax.tree.structure(jax.tree.unflatten(one, range(one.num_leaves)))
        assert (one, hash(one)) == (again, hash(again))
        assert all(one != other for other in structures[:index])


def test_a_misspelt_hook_of_a_relaxation_is_refused():
    with pytest.raises(TypeError, match="Mine.lower_bond: not a hook of Relaxation; did you mean"):

        class Mine(relaxations.Relaxation):
            def lower_bond(self, margins, prior=None):
                return 0.0

    class Unfinished(relaxations.Relaxation):
        pass

    with pytest.raises(TypeError, match="abstract"):
        Unfinished()
    for name, factory in FACTORIES.items():
        numbers = [1.0] * (2 if name in ("entropy", "offset") else name != "hard")
        assert isinstance(factory(*numbers), relaxations.Relaxation)


def test_costs_of_votes_declare_their_hooks():
    from jboost.relaxations.votes import OfNorm

    with pytest.raises(TypeError, match="Mine.proximals: not a hook of VotePenalty; did you mean"):

        class Mine(relaxations.VotePenalty):
            def proximals(self, votes, step):
                return votes

    with pytest.raises(TypeError, match="Other.best_edges: not a hook of OfNorm; did you mean"):

        class Other(OfNorm):
            def best_edges(self, edges):
                return edges

    class Unfinished(OfNorm):
        pass

    with pytest.raises(TypeError, match="abstract.*best_norm.*slope"):
        Unfinished()
    for cost in (relaxations.unit_ball(), relaxations.squared_norm(1.0)):
        assert isinstance(cost, OfNorm)
    for cost in (relaxations.elastic_net(0.1, 1.0), relaxations.group_ball([0, 1])):
        assert isinstance(cost, relaxations.VotePenalty)
        assert not isinstance(cost, OfNorm)


def test_relaxations_in_other_units():
    """f / unit: 0 or inf stays as it is, a scale is divided, and the user's own f is not known."""
    for name in FACTORIES:
        numbers = {"entropy": (0.5, 1.0), "offset": (1.0, 1.0), "hard": ()}.get(name, (1.0,))
        relaxation = FACTORIES[name](*numbers)
        found = relaxation.in_units(jnp.asarray(4.0))
        if hasattr(relaxation, "scale"):
            assert float(found.scale) == 0.25
        elif isinstance(relaxation, relaxations.CustomRelaxation):
            assert found is None
        else:
            assert found is relaxation


@pytest.mark.parametrize("name", slow_but(NAMES, *QUICK))
def test_lower_bounds_are_below_the_exact_minimum_and_near_it(name, dtype):
    cases, handed, minima = exact(name, dtype)
    margin = 2e-6 if dtype == np.float32 else 1e-9
    for case, answer, minimum in zip(handed, ask(name, cases, dtype), minima, strict=True):
        assert np.isfinite(answer.lower_bound)
        assert LONG(answer.lower_bound) <= minimum + LONG(1e-17) * (
            1 + abs(minimum) if np.isfinite(minimum) else 1
        )
        assert minimum == np.inf or minimum - answer.lower_bound <= margin * units(name, case)


@pytest.mark.parametrize("name", slow_but(NAMES, *QUICK))
def test_charges_are_above_the_exact_value_and_near_it(name, dtype):
    cases, handed, _ = exact(name, dtype)
    slack = 4e-6 if dtype == np.float32 else 1e-11
    if name == "ball3" and dtype == np.float64:
        slack = 4e-10  # its share of the prior follows from convexity alone, which is not tight
    for case, answer in zip(handed, ask(name, cases, dtype), strict=True):
        for weights, charge, value in (
            (answer.argmin.astype(LONG), answer.argmin_charge, answer.argmin_value),
            (case.example_weights, answer.charge, np.inf),
        ):
            price = exact_value(name, case.parameters, weights / weights.sum(), case.prior)
            if np.isfinite(price):
                assert price <= charge <= price + slack * units(name, case)
            elif name in ("cap", "nu"):  # the weight above the caps has to go elsewhere
                most = case.prior * (
                    case.parameters[0] * len(case.prior)
                    if name == "cap"
                    else 1 / case.parameters[0]
                )
                excess = 2 * np.sum(np.maximum(weights / weights.sum() - most, 0))
                assert excess <= charge <= excess + slack or most.sum() < 1
            elif np.isfinite(value):  # an argmin that rounding has moved out
                assert abs(charge - value) <= slack * units(name, case)


@pytest.mark.parametrize("name", slow_but(NAMES, *QUICK))
def test_bounds_allow_for_the_rounding_of_the_shares(name, dtype):
    """Shares are weights over their sum, and what is handed in has been rounded."""
    rng = np.random.default_rng(14)
    cases, handed = [], []
    for index in range(NUM_CASES):
        size = int(rng.choice([3, 41, SIZE]))
        weights = [np.ones(size), rng.integers(1, 9, size), rng.integers(1, 2**20, size)][
            index % 3
        ].astype(dtype)
        margins = np.zeros(size) if index % 4 == 0 else random_margins(rng, size, "ties")
        prior = weights / weights.sum(dtype=np.float64).astype(dtype)
        cases.append(
            Case(
                random_parameters(rng, name, size),
                margins,
                prior,
                10 ** rng.uniform(-6, 2),
                prior * rng.uniform(0.9, 1.1, size),
            )
        )
        handed.append(
            rounded(cases[-1], dtype)._replace(prior=weights.astype(LONG) / weights.sum(dtype=LONG))
        )
    for case, answer in zip(handed, ask(name, cases, dtype), strict=True):
        minimum = least(name, case.parameters, case.margins, case.prior)
        assert LONG(answer.lower_bound) <= minimum + LONG(1e-17)
        for weights, charge in (
            (answer.argmin.astype(LONG), answer.argmin_charge),
            (case.example_weights, answer.charge),
        ):
            price = exact_value(name, case.parameters, weights / weights.sum(), case.prior)
            assert price <= charge or price == np.inf


@pytest.mark.parametrize("name", ["cap", "ball1", *ORDERS, "penalty1", "penaltyinf"])
def test_parameters_of_any_size(name, dtype):
    """Caps and balls that hold all distributions leave the least margin; penalties are added, far
    below its rounding and far above it.
    """
    limits, is_free = np.finfo(dtype), name in ("cap", "ball1", *BALLS)
    sizes = (
        [1e15, limits.max, np.inf] if is_free else [limits.tiny, 1e-30, 1e-18, 1e15, limits.max / 4]
    )
    margins, prior = np.array([0.3, 0.5, -0.2]), np.array([0.2, 0.3, 0.5])
    cases = [Case((size,), margins, prior, strength) for size in sizes for strength in (1e-6, 1.0)]
    for case, answer in zip(
        [rounded(case, dtype) for case in cases], ask(name, cases, dtype), strict=True
    ):
        minimum = least("hard" if is_free else name, case.parameters, case.margins, case.prior)
        slack = max(8 * limits.eps, 1e-12) * (1 + abs(minimum))
        assert minimum - slack <= LONG(answer.lower_bound) <= minimum
        assert (
            minimum - slack
            <= case.margins @ answer.argmin.astype(LONG) + answer.argmin_charge
            < np.inf
        )


def test_conjugates_of_no_shortfall_are_nothing():
    for relaxation in (
        relaxations.soft_margin(math.inf),
        *(relaxations.norm_ball(order, math.inf) for order in (1, 1.5, 2, 3)),
    ):
        assert [float(relaxation.conjugate(jnp.array([worst, 0.0]))) for worst in (0.0, 0.1)] == [
            0,
            np.inf,
        ]


@pytest.mark.parametrize("name", NAMES)
def test_argmins_meet_the_optimality_conditions(name, x64):
    cases, _, _ = exact(name, np.float64)
    for case, answer in zip(cases, ask(name, cases, np.float64), strict=True):
        assert abs(answer.argmin.sum() - 1) < 1e-12
        assert answer.argmin.min() >= 0
        assert violation(name, case, answer.argmin) <= 1e-8 * (
            1 + np.ptp(case.margins) / case.strength
        )


@pytest.mark.parametrize("name", NAMES)
def test_argmins_in_float32_are_nearly_optimal(name):
    """Judged by the certified charge, so that leaving the domain costs."""
    cases, handed, _ = exact(name, np.float32)

    def smoothed(case, d, charge):
        d = d.astype(LONG) / d.sum(dtype=LONG)
        inside = d > 0
        return (
            np.sum(case.margins * d)
            + charge
            + case.strength * np.sum(d[inside] * np.log(d[inside] / case.prior[inside]))
        )

    coarse = ask(name, cases, np.float32)
    with jax.enable_x64(True):
        as_handed = [
            Case(
                tuple(map(float, c.parameters)),
                *(np.asarray(x, float) for x in c[1:3]),
                float(c.strength),
            )
            for c in handed
        ]
        fine = ask(name, as_handed, np.float64)
    for case, one, best in zip(handed, coarse, fine, strict=True):
        assert abs(float(one.argmin.sum(dtype=LONG)) - 1) <= 1e-6
        excess = smoothed(case, one.argmin, one.argmin_charge) - smoothed(
            case, best.argmin, best.argmin_charge
        )
        assert (
            excess
            <= 4e-6 * units(name, case) * max(1.0, float(case.strength)) + 1e-9 * case.strength
        )


@pytest.mark.parametrize("order", slow_but([1.01, 1.5, 3.0, 10.0, 300.0], 3.0))
@pytest.mark.parametrize("is_ball", slow_but([True, False], True), ids=["ball", "penalty"])
def test_norms_of_many_orders_meet_their_duals(order, is_ball, x64):
    """Exact and smoothed minimisers: the value of one is the certified bound, and no random
    distribution of the ball is better than the other.
    """
    rng = np.random.default_rng(22)
    cases = [
        (rng.uniform(-1, 1, 9), random_prior(rng, 9, kind), 10 ** rng.uniform(-2, 1))
        for kind in ("equal", "random", "unequal", "random")
    ]
    numbers = np.array([1.3 / 9 ** (1 - 1 / order) if is_ball else 0.4] * len(cases))
    make = functools.partial(relaxations.norm_ball if is_ball else relaxations.norm_penalty, order)
    margins, prior, strength = (np.stack(column) for column in zip(*cases, strict=True))

    def found(number, margins, strength, prior):
        relaxation = make(number)
        return (
            relaxation.argmin(margins, prior),
            relaxation.smoothed_argmin(margins, strength, prior),
            relaxation.lower_bound(margins, prior),
        )

    exact_d, smoothed, lower = map(
        np.asarray, jax.jit(jax.vmap(found))(numbers, margins, strength, prior)
    )

    def norm(d, prior):
        density = d / prior
        top = density.max()
        powers = np.sum(prior * (density / top) ** order) ** (1 / order)
        return 9 ** (1 / order - 1) * top * powers

    for index, (mu, p, beta) in enumerate(cases):
        number = numbers[index]
        for d in (exact_d[index], smoothed[index]):
            assert abs(d.sum() - 1) < 1e-12
            assert not is_ball or norm(d, p) <= number * (1 + 1e-10)
        price = 0.0 if is_ball else number * norm(exact_d[index], p)
        assert -1e-12 <= mu @ exact_d[index] + price - lower[index] <= 1e-9

        def smooth_value(d, mu=mu, p=p, beta=beta, number=number):
            price = 0.0 if is_ball else number * norm(d, p)
            return mu @ d + price + beta * np.sum(scipy.special.rel_entr(d, p))

        best = smooth_value(smoothed[index])
        others = smoothed[index] + rng.normal(size=(4000, 9)) * p * 10.0 ** rng.uniform(
            -6, 0, (4000, 1)
        )
        others = np.maximum(others, 0)
        others /= others.sum(axis=1, keepdims=True)
        allowed = [d for d in others if not is_ball or norm(d, p) <= number]
        assert len(allowed) > 100
        assert min(map(smooth_value, allowed)) >= best - 1e-10


@pytest.mark.slow
@pytest.mark.parametrize("order", [1.5, 3.0])
def test_norms_of_any_order_have_the_derivatives_of_differences(order, x64):
    margins, prior = np.array([0.3, -0.2, 0.1, 0.6, -0.15]), np.array([0.1, 0.3, 0.2, 0.25, 0.15])
    other = np.cos(np.arange(5.0))
    for make, at in (
        (relaxations.norm_ball, 1.25 / 5 ** (1 - 1 / order)),
        (relaxations.norm_penalty, 0.4),
    ):

        def chosen(number, margins, strength, prior, make=make):
            d = make(order, number).smoothed_argmin(margins, strength, prior / prior.sum())
            e = make(order, number).argmin(margins, prior / prior.sum())
            low = make(order, number).lower_bound(margins, prior / prior.sum())
            return jnp.stack([other @ d, other @ e, low])

        at = [jnp.asarray(part) for part in (at, margins, 0.3, prior)]
        direction = [0.7, np.sin(np.arange(5.0)), 0.4, 0.1 * np.cos(3 * np.arange(5.0))]
        step = 1e-5
        run = jax.jit(chosen)
        _, slope = jax.jvp(run, at, [jnp.asarray(part) for part in direction])
        ends = [
            run(*(a + sign * step * d for a, d in zip(at, direction, strict=True)))
            for sign in (1, -1)
        ]
        np.testing.assert_allclose(slope, (ends[0] - ends[1]) / (2 * step), atol=2e-6)
        gradient = jax.grad(lambda *parts, run=run: run(*parts)[0], argnums=(0, 1, 2, 3))(*at)
        total = sum(float(np.sum(g * d)) for g, d in zip(gradient, direction, strict=True))
        assert abs(total - float(slope[0])) < 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("order", [2.0, 3.0])
def test_smoothed_minimisers_of_equal_margins_differentiate_in_both_modes(order, dtype):
    """They are the prior, and move as the softmax does, if the ball has more than the prior."""
    prior, direction = jnp.asarray([0.1, 0.3, 0.2, 0.4], dtype), jnp.asarray([1.0, -2, 0.5, 3])
    for relaxation in (relaxations.norm_ball(order, 0.9), relaxations.norm_penalty(order, 0.4)):
        strength = jnp.asarray(0.5, dtype)

        def run(margins, relaxation=relaxation, strength=strength):
            return relaxation.smoothed_argmin(margins, strength, prior)

        margins = jnp.full(4, 0.7, dtype)
        jacobian = np.asarray(jax.jacrev(run)(margins))
        _, moved = jax.jvp(run, (margins,), (direction.astype(dtype),))
        np.testing.assert_allclose(jacobian @ np.asarray(direction), moved, atol=1e-5)
        softmax = np.outer(prior, prior) - np.diag(prior)
        if isinstance(relaxation, relaxations.NormBall | EuclideanBall):
            np.testing.assert_allclose(jacobian, softmax / 0.5, atol=1e-5)
        else:
            assert np.trace(jacobian) < 0
            assert np.all(np.linalg.eigvalsh(softmax / 0.5 - (jacobian + jacobian.T) / 2) <= 1e-5)


# --- Theorem 7 ------------------------------------------------------------------------------------


def games():
    """Margin matrices [m, n] and priors: stumps, duplicated, with a constant column, with
    conflicting rows, and random ones.
    """
    rng = np.random.default_rng(3)
    points = np.sort(rng.uniform(-1, 1, 7))
    labels = np.array([1, 1, -1, 1, -1, -1, 1.0])
    stumps = labels[:, None] * np.where(points[:, None] > rng.choice(points, 5)[None, :], 1.0, -1.0)
    conflict = rng.choice([-1.0, 1.0], (3, 4))
    matrices = [
        stumps,
        np.concatenate([stumps[:, :2], stumps[:, :2], np.ones((7, 1))], axis=1),
        np.concatenate([conflict, -conflict[:2]]),
        rng.uniform(-1, 1, (8, 5)),
        rng.uniform(-0.2, 1, (4, 2)),
        np.array([[0.5]]),
    ]
    return [(A, random_prior(rng, len(A), kind)) for A in matrices for kind in ("equal", "random")]


def linear_game(name, parameter, A, prior):
    """min over d of max_j |(d'A)_j| + f(d), and votes that attain it, by HiGHS: variables d, the
    edge t, the largest density s.
    """
    size, count = A.shape
    cost = np.concatenate([np.zeros(size), [1.0, parameter if name == "penaltyinf" else 0.0]])
    blank = np.zeros((count, 1))
    rows = [
        np.hstack([A.T, -np.ones((count, 1)), blank]),
        np.hstack([-A.T, -np.ones((count, 1)), blank]),
    ]
    rows.append(np.hstack([np.diag(1 / (size * prior)), np.zeros((size, 1)), -np.ones((size, 1))]))
    most = {"cap": lambda: parameter * size * prior, "nu": lambda: prior / parameter}.get(
        name, lambda: np.full(size, np.inf)
    )()
    limits = [*((0, cap) for cap in most), (0, None), (0, None)]
    equality = np.concatenate([np.ones(size), [0.0, 0.0]])[None, :]
    result = scipy.optimize.linprog(
        cost,
        A_ub=np.vstack(rows),
        b_ub=np.zeros(2 * count + size),
        A_eq=equality,
        b_eq=[1.0],
        bounds=limits,
    )
    assert result.status == 0
    votes = result.ineqlin.marginals[count : 2 * count] - result.ineqlin.marginals[:count]
    return result.fun + (parameter if name == "penalty1" else 0.0), votes


def smooth_game(name, parameters, A, prior):
    """The same by sequential quadratic programming, the two sides apart: over d and t, and over
    positive and negative votes and gamma.
    """
    size, count = A.shape
    measure = size * prior
    order = ORDERS.get(name, 2.0)
    dual_order = order / (order - 1)

    def f(d):
        if name in PENALTIES:
            return parameters[0] * np.sum(measure * (d / measure) ** order) ** (1 / order)
        if name == "quadratic":
            return parameters[0] * np.sum(d * d) / 2
        if name in (*BALLS, "chi2ball"):
            return 0.0
        if name == "chi2penalty":
            return parameters[0] * np.sum((d - prior) ** 2 / prior)
        if name == "klpenalty":
            return parameters[0] * np.sum(d * np.log(d / prior))
        coins = np.clip(parameters[0] * d / prior, 1e-300, 1 - 1e-16)
        return parameters[1] * np.sum(
            prior * (np.log(2) + coins * np.log(coins) + (1 - coins) * np.log1p(-coins))
        )

    def loss(z):
        if name in BALLS:
            total = np.sum(measure * np.maximum(z, 0) ** dual_order) + 1e-300
            return parameters[0] * total ** (1 / dual_order)
        if name == "chi2ball":
            return np.sqrt((1 + parameters[0]) * np.sum(prior * np.maximum(z, 0) ** 2) + 1e-300)
        if name == "chi2penalty":
            positive = np.maximum(z, -2 * parameters[0])
            return np.sum(prior * (positive + positive**2 / (4 * parameters[0])))
        if name == "klpenalty":
            return parameters[0] * np.sum(prior * np.expm1(z / parameters[0]))
        if name == "quadratic":
            return np.sum(np.maximum(z, 0) ** 2) / (2 * parameters[0])
        if name == "entropy":
            return parameters[1] * np.sum(
                prior * (np.logaddexp(0, z / (parameters[0] * parameters[1])) - np.log(2))
            )
        return 0.0

    edges = {
        "type": "ineq",
        "fun": lambda x: np.concatenate([x[-1] - A.T @ x[:-1], x[-1] + A.T @ x[:-1]]),
    }
    limits = [
        (1e-12, p / parameters[0] * (1 - 1e-12) if name == "entropy" else 1.0) for p in prior
    ] + [(0, None)]
    primal_rules = [edges, {"type": "eq", "fun": lambda x: x[:-1].sum() - 1}]
    if name in BALLS:
        primal_rules.append(
            {
                "type": "ineq",
                "fun": lambda x: (
                    parameters[0] ** order - np.sum(measure * (x[:-1] / measure) ** order)
                ),
            }
        )
    if name == "chi2ball":
        primal_rules.append(
            {"type": "ineq", "fun": lambda x: parameters[0] - np.sum((x[:-1] - prior) ** 2 / prior)}
        )
    start = np.concatenate([prior, [np.abs(prior @ A).max()]])
    options = {"maxiter": 1000, "ftol": 1e-14}
    primal = scipy.optimize.minimize(
        lambda x: x[-1] + f(x[:-1]),
        start,
        method="SLSQP",
        bounds=limits,
        constraints=primal_rules,
        options=options,
    )

    def shortfalls(x):
        return x[-1] - A @ (x[:count] - x[count:-1])

    dual_rules = [{"type": "ineq", "fun": lambda x: 1 - x[:-1].sum()}]
    if name in PENALTIES:
        dual_rules.append(
            {
                "type": "ineq",
                "fun": lambda x: (
                    parameters[0] ** dual_order
                    - np.sum(measure * np.maximum(shortfalls(x), 0) ** dual_order)
                ),
            }
        )
    # One start is not enough: the norm has no gradient where every shortfall is 0, and the method
    # may stop beside such a point, on one processor and not on another.
    limits = [(0, 1)] * (2 * count) + [(None, None)]
    for votes in (np.full(2 * count, 0.5 / count), *np.eye(2 * count)):
        dual = scipy.optimize.minimize(
            lambda x: loss(shortfalls(x)) - x[-1],
            np.append(votes, np.min(A @ (votes[:count] - votes[count:]))),
            method="SLSQP",
            bounds=limits,
            constraints=dual_rules,
            options=options,
        )
        feasible = all(np.min(rule["fun"](dual.x)) >= -1e-9 for rule in dual_rules)
        if feasible and primal.fun + dual.fun <= 1e-6:
            break
    else:
        raise AssertionError(f"no start reaches the primal value {primal.fun}")
    return primal.fun, dual.x[:count] - dual.x[count:-1]


@pytest.mark.parametrize(
    "name",
    slow_but(
        [*(name for name in NAMES if name != "klball"), "quadratic"],
        "hard",
        "cap",
        "nu",
        "ball1",
        "penalty1",
        "penaltyinf",
        "entropy",
    ),
)
def test_theorem_7(name, x64):
    """The best relaxed edge is the best relaxed margin: what the solver's votes prove through
    `lower_bound` meets what its weights cost.
    """
    rng = np.random.default_rng(11)
    cases, values = [], []
    for A, prior in games():
        size = len(A)
        parameters = {
            "cap": (2.2 / size,),
            "nu": (0.4,),
            "ball1": (1.3,),
            "ball2": (1.3 / size**0.5,),
            "ball3": (1.3 / size ** (2 / 3),),
            "entropy": (0.4, 0.2),
            "hard": (),
        }.get(name, (0.3,))
        if name in SMOOTH_GAMES:
            value, votes = smooth_game(name, parameters, A, prior)
        else:
            value, votes = linear_game(name, parameters[0] if parameters else None, A, prior)
        votes = votes / max(1.0, np.abs(votes).sum())
        for w in [
            votes,
            *(
                rng.dirichlet(np.ones(A.shape[1])) * rng.choice([-1, 1], A.shape[1])
                for _ in range(3)
            ),
        ]:
            cases.append(Case(parameters, A @ w, prior))
            values.append(value)
    bounds = np.array([answer.lower_bound for answer in ask(name, cases, np.float64)])
    tolerance = 2e-6 if name in SMOOTH_GAMES else 1e-9
    assert np.all(bounds <= np.array(values) + tolerance)
    np.testing.assert_allclose(bounds[::4], values[::4], atol=tolerance)


def test_lower_bound_without_the_condition_of_theorem_7_is_valid_and_not_tight(x64):
    scale, offset = 2.0, 0.4
    margins, prior = np.array([-0.2, 0.1, 0.3, 0.6]), np.full(4, 0.25)

    def price(d):
        return margins @ d + scale * np.sum(d * d - 2 * d * offset) / 2

    rule = {"type": "eq", "fun": lambda d: d.sum() - 1}
    best = scipy.optimize.minimize(
        price,
        prior,
        method="SLSQP",
        bounds=[(0, 1)] * 4,
        constraints=[rule],
        options={"ftol": 1e-14},
    ).fun
    bound = ask("offset", [Case((scale, offset), margins, prior)], np.float64)[0].lower_bound
    assert best - 1 < bound <= best - 1e-3


# --- particular relaxations -----------------------------------------------------------------------


def test_soft_margin_is_the_mean_of_the_smallest_margins(x64):
    margins = np.array([0.5, -0.25, 0.75, -1.0, 0.125, 0.5])
    caps = [Fraction(1, k) for k in range(1, 7)] + [
        Fraction(2, 5),
        Fraction(3, 10),
        Fraction(9, 10),
    ]

    def mean(cap):
        left, total = Fraction(1), Fraction(0)
        for margin in sorted(map(Fraction, margins)):
            share = min(cap, left)
            total, left = total + share * margin, left - share
        return float(total)

    answers = ask(
        "cap", [Case((float(cap),), margins, np.full(6, 1 / 6)) for cap in caps], np.float64
    )
    np.testing.assert_allclose(
        [a.lower_bound for a in answers], [mean(cap) for cap in caps], atol=1e-12
    )


@pytest.mark.parametrize("name", NAMES)
def test_an_example_of_weight_two_is_two_examples(name, x64):
    """Caps and norms are relative to the number of rows: what is kept is cap m, radius m^1/2, and
    the scale over its power of m.
    """
    rng = np.random.default_rng(4)
    folded, copied = [], []
    for _ in range(12):
        margins, counts = rng.uniform(-1, 1, 4), rng.integers(1, 4, 4)
        few, many = 4, counts.sum()
        parameters = {
            "hard": (),
            "nu": (0.6,),
            "ball1": (1.5,),
            "entropy": (0.6, 0.3),
            "penalty1": (0.4,),
        }.get(name, (0.3,))
        ratio = {
            "cap": many / few,
            "ball2": (many / few) ** 0.5,
            "ball3": (many / few) ** (2 / 3),
            "penalty2": (few / many) ** 0.5,
            "penalty1.5": (few / many) ** (1 / 3),
            "penaltyinf": few / many,
        }.get(name, 1.0)
        base = {
            "cap": (1.7 / many,),
            "ball2": (1.2 / many**0.5,),
            "ball3": (1.2 / many ** (2 / 3),),
        }.get(name, parameters)
        strength = 10 ** rng.uniform(-2, 1)
        weights = rng.dirichlet(np.ones(4)) * 0.1 + 0.9 * counts / many
        folded.append(
            Case(
                (*(p * ratio for p in base),) if name != "entropy" else base,
                margins,
                counts / many,
                strength,
                weights,
            )
        )
        copied.append(
            Case(
                base,
                np.repeat(margins, counts),
                np.full(many, 1 / many),
                strength,
                np.repeat(weights / counts, counts),
            )
        )
    for one, two, case in zip(
        ask(name, folded, np.float64), ask(name, copied, np.float64), folded, strict=True
    ):
        ends = np.cumsum(np.round(case.prior * len(two.argmin)).astype(int))
        np.testing.assert_allclose(
            one.argmin, np.diff(np.cumsum(two.argmin)[ends - 1], prepend=0), atol=1e-9
        )
        for field in ("lower_bound", "charge", "value", "argmin_charge", "argmin_value"):
            np.testing.assert_allclose(
                getattr(one, field), getattr(two, field), atol=1e-9, err_msg=field
            )


@pytest.mark.parametrize("name", NAMES)
def test_padding_may_hold_anything(name):
    cases = exact(name, np.float32)[0][:NUM_CASES]
    clean = ask(name, cases, np.float32, garbage=0.0)
    for garbage in (np.nan, np.inf, -1e30):
        for one, other in zip(clean, ask(name, cases, np.float32, garbage=garbage), strict=True):
            jax.tree.map(np.testing.assert_array_equal, one, other)


@pytest.mark.parametrize("name", NAMES)
def test_extreme_strengths_and_margins(name, dtype):
    """Spans of 1e6 strengths, all weight on one example, and the logs of vanished weights that a
    proximal method puts into margins.
    """
    rng = np.random.default_rng(5)
    cases = []
    for size in (1, 2, 8, SIZE):
        for strength in (1e-6, 1e-5, 1.0, 1e6):
            for margins in (
                rng.uniform(-1, 1, size),
                np.where(np.arange(size) == 0, -1.0, 1.0),
                strength * rng.choice([0.0, 40.0, 87.0], size),
            ):
                cases.append(
                    Case(
                        random_parameters(rng, name, size),
                        margins,
                        random_prior(rng, size, "unequal"),
                        strength,
                    )
                )
    for case, answer in zip(cases, ask(name, cases, dtype), strict=True):
        assert np.all(np.isfinite(answer.argmin))
        assert abs(float(answer.argmin.sum(dtype=LONG)) - 1) < 1e-6
        assert np.isfinite(answer.lower_bound)
        assert np.isfinite(answer.argmin_charge) or not answer.is_feasible
        least_bound = answer.lower_bound - 1e-5 * (units(name, case) + np.abs(case.margins).max())
        assert case.margins @ answer.argmin.astype(float) + answer.argmin_charge >= least_bound


def nearest_price(name, parameters, prior, d):
    """The least f(d') + |d' - d|_1 over the simplex, by sequential quadratic programming over d'
    and the moves.
    """
    size = len(d)

    def total(x):
        coins = np.clip(parameters[0] * x[:size] / prior, 1e-300, 1 - 1e-16)
        entropy = np.sum(
            prior * (np.log(2) + coins * np.log(coins) + (1 - coins) * np.log1p(-coins))
        )
        return x[size:].sum() + (parameters[1] * entropy if name == "entropy" else 0.0)

    rules = [
        {"type": "eq", "fun": lambda x: x[:size].sum() - 1},
        {
            "type": "ineq",
            "fun": lambda x: np.concatenate([x[size:] - (x[:size] - d), x[size:] + (x[:size] - d)]),
        },
    ]
    if name == "ball2":
        rules.append(
            {
                "type": "ineq",
                "fun": lambda x: parameters[0] ** 2 - np.sum(x[:size] ** 2 / (size * prior)),
            }
        )
    caps = prior / parameters[0] * (1 - 1e-12) if name == "entropy" else np.ones(size)
    start = np.concatenate([prior, np.abs(d - prior)])
    limits = [(1e-12, cap) for cap in caps] + [(0, 2)] * size
    return scipy.optimize.minimize(
        total,
        start,
        method="SLSQP",
        bounds=limits,
        constraints=rules,
        options={"maxiter": 500, "ftol": 1e-13},
    ).fun


@pytest.mark.parametrize("name, parameters", [("ball2", (0.6,)), ("entropy", (0.7, 0.5))])
def test_charges_of_weights_that_are_not_allowed_are_enough(name, parameters, x64):
    rng = np.random.default_rng(6)
    cases = [
        Case(
            parameters,
            np.zeros(4),
            random_prior(rng, 4, "random"),
            1.0,
            rng.dirichlet(np.full(4, 0.4)),
        )
        for _ in range(12)
    ]
    charges = [answer.charge for answer in ask(name, cases, np.float64)]
    prices = [nearest_price(name, parameters, case.prior, case.example_weights) for case in cases]
    assert np.all(np.isfinite(charges))
    assert np.all(np.array(charges) >= np.array(prices) - 1e-7)
    assert np.max(prices) > 0.1


def test_what_is_infeasible_is_told():
    prior = jnp.full(4, 0.25)
    for name, outside, inside in (
        ("cap", 0.24, 0.25),
        ("ball2", 0.49, 0.5),
        ("ball3", 0.39, 0.4),
        ("ball1", 0.9, 1.0),
    ):
        for number, wanted in ((outside, False), (inside, True)):
            case = Case((number,), np.zeros(4), np.full(4, 0.25))
            answer = ask(name, [case], np.float32)[0]
            assert bool(answer.is_feasible) is wanted
            assert bool(np.isfinite(answer.charge)) is wanted
    assert bool(relaxations.soft_margin(nu=1.0).is_feasible())
    assert bool(relaxations.hard_margin().is_feasible(prior))
    for needs in (
        relaxations.soft_margin(0.5),
        relaxations.norm_ball(2, 0.5),
        relaxations.norm_ball(3, 0.5),
    ):
        with pytest.raises(ValueError, match="^prior is None"):
            needs.is_feasible()


@pytest.mark.slow
def test_traced_parameters_that_no_factory_takes_are_told():
    records = {
        "cap": ([-1.0, 0.0], [0.01, np.inf]),
        "nu": ([-1.0, 0.0], [0.5, 2.0]),
        "ball1": ([-1.0, 0.0], [0.5, np.inf]),
        "ball2": ([-0.8, 0.0], [0.1, np.inf]),
        "ball3": ([-0.8, 0.0], [0.1, np.inf]),
        "penalty1": ([-1.0, 0.0, np.inf], [1e-30, 1e30]),
        "penalty2": ([-1.0, 0.0, np.inf], [1e-30, 1e30]),
        "penalty1.5": ([-1.0, 0.0, np.inf], [1e-30, 1e30]),
        "penaltyinf": ([-1.0, 0.0, np.inf], [1e-30, 1e30]),
        "votes": ([-1.0, 0.0, np.inf], [1e-30, 1e30]),
        "scale": ([-1.0, 0.0, np.inf], [1e-18, 1e18]),
        "chance": ([-1.0, 0.0, np.inf], [1e-18, 2.0]),
    }
    others = {
        "votes": relaxations.squared_norm,
        "scale": lambda scale: relaxations.binary_entropy(0.5, scale),
        "chance": lambda nu: relaxations.binary_entropy(nu, 1.0),
    }
    for name, (bad, good) in records.items():
        found = jax.vmap(lambda number, name=name: (FACTORIES | others)[name](number).is_valid())(
            jnp.array([np.nan, *bad, *good])
        )
        assert found.tolist() == [False] * (1 + len(bad)) + [True] * len(good), name
    assert relaxations.hard_margin().is_valid()
    assert relaxations.unit_ball().is_valid()


@pytest.mark.parametrize("name", slow_but(["nu", "ball2", "penaltyinf", "entropy"], "nu"))
def test_vmap_over_a_parameter_is_a_loop(name):
    cases = [c for c in exact(name, np.float32)[0] if len(c.margins) == SIZE][:3]
    together = ask(name, cases, np.float32)

    @jax.jit
    def alone(relaxation, margins, strength, prior):
        def step(carry, _):
            return carry, (
                relaxation.smoothed_argmin(margins, strength, prior),
                relaxation.lower_bound(margins, prior),
            )

        return jax.tree.map(lambda leaf: leaf[0], jax.lax.scan(step, 0.0, length=1)[1])

    for case, one in zip(cases, together, strict=True):
        args = [
            jnp.asarray(part, jnp.float32) for part in (case.margins, case.strength, case.prior)
        ]
        argmin, bound = alone(FACTORIES[name](*case.parameters), *args)
        np.testing.assert_allclose(argmin, one.argmin, atol=2e-6)
        np.testing.assert_allclose(bound, one.lower_bound, atol=1e-6)


@pytest.mark.parametrize(
    "message, build",
    [
        ("cap and nu", lambda: relaxations.soft_margin()),
        ("cap and nu", lambda: relaxations.soft_margin(0.5, nu=0.5)),
        ("cap is 0", lambda: relaxations.soft_margin(0.0)),
        ("nu is 1.5", lambda: relaxations.soft_margin(nu=1.5)),
        ("order is 0.5: expected a number from 1", lambda: relaxations.norm_ball(0.5, 1.0)),
        ("order is nan", lambda: relaxations.norm_penalty(math.nan, 1.0)),
        ("order is '2'", lambda: relaxations.norm_penalty("2", 1.0)),
        ("radius is 0.5", lambda: relaxations.norm_ball(1, 0.5)),
        ("radius is nan", lambda: relaxations.norm_ball(2, math.nan)),
        ("scale is -1", lambda: relaxations.norm_penalty(2, -1.0)),
        ("nu is 0", lambda: relaxations.binary_entropy(0.0, 1.0)),
        ("scale is 0", lambda: relaxations.binary_entropy(0.5, 0.0)),
        ("scale is inf", lambda: relaxations.norm_penalty(math.inf, math.inf)),
        ("strength is 0", lambda: relaxations.squared_norm(0.0)),
        ("strength is inf", lambda: relaxations.squared_norm(math.inf)),
        ("num_noisy is -1", lambda: relaxations.num_worst(-1, 0.5)),
        ("margin is 0", lambda: relaxations.num_worst(1, 0.0)),
        ("conjugate is a int", lambda: relaxations.from_functions(quadratic, 3, plain_softmax)),
        (
            "parameters holds a str",
            lambda: relaxations.from_functions(
                quadratic, quadratic_conjugate, plain_softmax, parameters="two"
            ),
        ),
    ],
)
def test_bad_arguments_are_named(message, build):
    with pytest.raises(ValueError, match=f"^{message}"):
        build()


def test_num_worst_is_the_least_that_is_enough():
    assert relaxations.num_worst(0, 0.5) == 1
    for noisy in (1, 2, 7):
        for margin in (Fraction(1, 10), Fraction(1, 3), Fraction(1, 2), Fraction(1)):
            assert relaxations.num_worst(noisy, float(margin)) == math.ceil(
                2 * noisy * (margin + 1) / margin
            )


# --- what votes cost ------------------------------------------------------------------------------


@pytest.mark.slow
def test_votes_stay_in_the_unit_ball_for_certain(dtype):
    rng = np.random.default_rng(12)
    votes = np.concatenate(
        [
            rng.normal(size=(20, 300)) * 10 ** rng.uniform(-4, 4, (20, 1)),
            np.eye(300)[:4],
            np.zeros((1, 300)),
        ]
    ).astype(dtype)
    ball = relaxations.unit_ball()
    projected = np.asarray(jax.jit(jax.vmap(lambda v: ball.proximal(v, 1.0)))(jnp.asarray(votes)))
    for before, after in zip(votes.astype(LONG), projected.astype(LONG), strict=True):
        assert np.sum(np.abs(after)) <= 1

        def rest(threshold, before=before):
            return np.maximum(np.abs(before) - threshold, 0)

        threshold = (
            0
            if np.sum(np.abs(before)) <= 1
            else bisect(lambda t: np.sum(rest(t)) > 1, LONG(0), np.abs(before).max())
        )
        np.testing.assert_allclose(
            after.astype(float),
            (np.sign(before) * rest(threshold)).astype(float),
            atol=3e-6 * max(1, float(abs(before).max())),
        )
        assert float(ball.cost(relaxations.votes.norm_bound(jnp.asarray(after.astype(dtype))))) == 0
    assert [float(ball.cost(jnp.asarray(norm, dtype))) for norm in (1.0, 1.1)] == [0, np.inf]
    assert [float(ball.conjugate(jnp.asarray(edge, dtype))) for edge in (-0.5, 0.5)] == [0, 0.5]


@pytest.mark.slow
def test_squared_norm_against_a_scalar_search(dtype):
    rng = np.random.default_rng(13)
    for strength in (0.01, 1.0, 300.0):
        penalty = relaxations.squared_norm(strength)
        for edge in dtype([0.0, 0.3, 1.0]):
            exact_price = LONG(edge) ** 2 / (2 * LONG(penalty.strength))
            found = penalty.conjugate(jnp.asarray(edge))
            assert (
                exact_price
                <= LONG(found)
                <= exact_price * (1 + 8 * LONG(np.finfo(dtype).eps)) + LONG(np.finfo(dtype).tiny)
            )
            norm = jnp.asarray(edge / dtype(penalty.strength))
            assert abs(norm * edge - penalty.cost(norm) - found) <= 1e-5 * found + 1e-30
            assert LONG(penalty.cost(norm)) >= LONG(penalty.strength) * LONG(norm) ** 2 / 2
        votes, step = rng.normal(size=6).astype(dtype), 0.7
        found = np.asarray(penalty.proximal(jnp.asarray(votes), jnp.asarray(step, dtype)))

        def objective(pairs, votes=votes, strength=strength, step=step):
            w = pairs[:6] - pairs[6:]
            return np.sum((w - votes) ** 2) / 2 + step * strength / 2 * np.sum(pairs) ** 2

        best = scipy.optimize.minimize(
            objective,
            np.zeros(12),
            method="L-BFGS-B",
            bounds=[(0, None)] * 12,
            options={"ftol": 1e-15, "gtol": 1e-10},
        )
        np.testing.assert_allclose(found, best.x[:6] - best.x[6:], atol=2e-5)


@pytest.mark.slow
def test_prices_of_votes_are_not_charged_to_the_edge(dtype):
    """g*(edge) + f(d) of what is allowed; of what is not, f(d') and g* of an edge that the move to
    d' may raise.
    """
    weights, edge, strength = np.array([0.75, 0.25], dtype), dtype(0.5), 0.1
    free = float(edge**2 / (2 * LONG(dtype(strength))))
    entropy = 0.5 * (np.log(2) + np.sum(0.5 * scipy_xlogx(np.array([0.75, 0.25, 0.25, 0.75]))))
    for relaxation, wanted in (
        (relaxations.hard_margin(), free),
        (relaxations.norm_penalty(1, 0.5), free + 0.5),
        (relaxations.norm_penalty(2, 0.5), free + 0.5 * np.sqrt(0.625)),
        (relaxations.norm_penalty(math.inf, 0.5), free + 0.5 * 0.75),
        (relaxations.binary_entropy(0.5, 0.5), free + entropy),
        (FACTORIES["quadratic"](0.5), free + 0.5 * 0.625 / 2),
        (relaxations.soft_margin(0.5), 4 * free),  # it moves 0.5
    ):
        upper = certify.upper_from_edge(
            edge, weights, relaxation, relaxations.squared_norm(strength), jnp.full(2, 0.5, dtype)
        )
        assert 0 <= upper - wanted <= 1e-4


def test_squared_norms_of_tiny_strengths():
    rounding = 2 * Fraction(float(np.finfo(np.float32).tiny))
    for strength, edge in ((1.2e-38, 1e-23), (1e-37, 1e-19), (1.0, 1e-30)):
        price = relaxations.squared_norm(strength)
        found, exact = (
            Fraction(float(price.conjugate(jnp.float32(edge)))),
            Fraction(float(np.float32(edge))) ** 2 / (2 * Fraction(float(price.strength))),
        )
        assert exact <= found <= exact * Fraction(1001, 1000) + rounding
    assert float(relaxations.squared_norm(1.2e-38).cost(jnp.float32(1e18))) >= 0.5 * 1.2e-2


MAKERS = {
    "hard_margin": relaxations.hard_margin,
    "soft_margin": lambda number=0.25: relaxations.soft_margin(number),
    "soft_margin of a nu": lambda number=0.25: relaxations.soft_margin(nu=number),
    "norm_ball": lambda number=0.75: relaxations.norm_ball(2, number),
    "norm_penalty": lambda number=0.75: relaxations.norm_penalty(1, number),
    "norm_ball of order 3": lambda number=0.75: relaxations.norm_ball(3, number),
    "norm_ball of order 4": lambda number=0.75: relaxations.norm_ball(4, number),
    "norm_penalty of order 3": lambda number=0.75: relaxations.norm_penalty(3, number),
    "norm_penalty of the largest": lambda number=0.75: relaxations.norm_penalty(jnp.inf, number),
    "binary_entropy": lambda number=0.5: relaxations.binary_entropy(number, 2.0),
    "squared_norm": lambda number=0.5: relaxations.squared_norm(number),
    "from_functions": lambda number=0.5: relaxations.from_functions(
        jnp.dot, jnp.vdot, jnp.outer, parameters={"a": number, "b": jnp.full(2, jnp.nan)}
    ),
}


@pytest.mark.parametrize("name", MAKERS)
def test_relaxations_hash_and_compare_by_value(name):
    make = MAKERS[name]
    assert make() == make()
    assert hash(make()) == hash(make())
    assert len({make(), make()}) == 1
    others = [other() for key, other in MAKERS.items() if key != name]
    assert all(make() != other for other in others)
    assert make() != name
    if name != "hard_margin":
        assert make(0.375) != make()


def test_traced_relaxations_equal_themselves_alone():
    def compare(number):
        one = relaxations.soft_margin(number)
        assert one == one
        assert one != relaxations.soft_margin(0.25)
        return number

    jax.eval_shape(compare, 0.25)


# --- derivatives of charges -----------------------------------------------------------------------

CHARGED = {
    "penalty1": (0.5,),
    "penalty2": (0.5,),
    "penaltyinf": (0.7,),
    "penalty1.5": (0.5,),
    "entropy": (0.45, 0.6),
    "chi2penalty": (0.4,),
    "klpenalty": (0.5,),
}


@pytest.mark.parametrize("name", slow_but(CHARGED, "penalty2"))
def test_charges_have_the_derivative_of_the_penalty_of_weights_of_sum_one(name, x64):
    weights, prior = jnp.array([0.5, 0.9, 0.4, 0.2]), jnp.array([0.2, 0.3, 0.4, 0.1])

    def charge(weights, prior, numbers):
        return FACTORIES[name](*numbers).charge(weights, prior).value

    def exact(weights, prior, numbers):
        prior = prior / prior.sum()
        return FACTORIES[name](*numbers).value(weights / weights.sum(), prior)

    arguments = weights, prior, jnp.asarray(CHARGED[name])
    steps = [np.eye(len(each)) * 1e-6 for each in arguments[::2]]
    for jacobian in (jax.jacfwd, jax.jacrev):
        found = jax.jit(jacobian(charge, argnums=(0, 2)))(*arguments)
        for place, part, rows in zip((0, 2), found, steps, strict=True):
            for row, slope in zip(rows, part, strict=True):
                sides = []
                for sign in (1, -1):
                    moved = list(arguments)
                    moved[place] = arguments[place] + sign * row
                    sides.append(exact(*moved))
                np.testing.assert_allclose(slope, (sides[0] - sides[1]) / 2e-6, atol=1e-7)
    assert name == "penalty1" or np.abs(found[0]).max() > 1e-2


def test_the_distance_of_a_charge_has_no_derivative():
    weights = jnp.array([0.7, 0.2, 0.1])

    def moved(weights):
        return relaxations.soft_margin(0.5).charge(weights).moved

    assert moved(weights) > 0.3
    with pytest.raises(TypeError, match=r"SoftMargin.charge\(...\).moved has no derivative"):
        jax.grad(moved)(weights)


@pytest.mark.parametrize("prior", [None, (0.2, 0.3, 0.1, 0.4)])
def test_charge_beyond_the_caps_has_the_derivative_of_its_value(prior):
    with jax.enable_x64(True):
        shares = None if prior is None else jnp.array(prior)

        def value(numbers):
            made = relaxations.binary_entropy(numbers[0], numbers[1])
            return made.charge(numbers[2:], shares).value

        numbers = jnp.array([0.5, 0.7, 0.05, 0.7, 0.2, 0.05])  # nu, the scale, example weights
        made = relaxations.binary_entropy(0.5, 0.7)
        assert made.charge(numbers[2:], shares).moved > 0.1
        step = 1e-6 * jnp.eye(6)
        slopes = [(value(numbers + one) - value(numbers - one)) / 2e-6 for one in step]
        np.testing.assert_allclose(jax.grad(value)(numbers), slopes, atol=1e-6)
        np.testing.assert_allclose(jax.jacfwd(value)(numbers), slopes, atol=1e-6)


@pytest.mark.parametrize("name", ["kl_penalty", "chi_square_penalty", "norm_penalty"])
def test_charge_has_the_derivative_in_a_prior_of_any_sum(name):
    with jax.enable_x64(True):
        made = {
            "kl_penalty": relaxations.kl_penalty(0.6),
            "chi_square_penalty": relaxations.chi_square_penalty(0.6),
            "norm_penalty": relaxations.norm_penalty(2, 0.5),
        }[name]
        weights, prior = jnp.array([0.1, 0.2, 0.3, 0.4]), jnp.array([0.2, 0.3, 0.1, 0.4])

        def value(prior):
            return made.charge(weights, prior).value

        step = 1e-6 * jnp.eye(4)
        slopes = [(value(prior + one) - value(prior - one)) / 2e-6 for one in step]
        np.testing.assert_allclose(jax.grad(value)(prior), slopes, atol=1e-6)
