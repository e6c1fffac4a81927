"""The table of all public algorithms and of what they run under: `python -m tests.capabilities`
writes docs/many-devices.md.

A cell names the tests that prove it, or gives a reason in words. tests/test_capabilities.py checks
that the tests exist, that every public algorithm has a row, and that the page is up to date.
"""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # as pytest does it

import contract
from benchmarks.algorithms import algorithms

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "many-devices.md"

COLUMNS = (
    "batch by `vmap`",
    "sharded batch",
    "sharded examples, `Auto`",
    "sharded examples, `Explicit`",
    "two processes",
    "resumes from disk",
    "equal bits on any number of devices",
    "`jax.export` for CUDA and TPU",
)


@dataclasses.dataclass(frozen=True)
class Cell:
    """Tests that prove that something works, as file::name or file::name[parameters]; or why it
    does not, or is not known to.
    """

    tests: tuple[str, ...] = ()
    reason: str = ""


# --- rows -----------------------------------------------------------------------------------------

ALGORITHMS = algorithms()
# The same functions by other options; benchmarks.algorithms has them because their programs differ.
VARIANTS = {
    "combine.fit, hierarchical",
    "combine.fit, coordinate",
    "projections.kl_projection_capped_simplex, sort",
    "relaxed_margin.solve, norm penalty",
    "relaxed_margin.solve, norm of order 3",
    "relaxed_margin.solve, binary entropy",
    "lpboost.solve, interior point",
    "lp.solve, first order",
    *(name for name in ALGORITHMS if "32-bit words" in name),
}
LARGE = ("l0.fit_large", "l0.choose_large")  # their sharded examples have tests of their own
NAMES = tuple(name for name in ALGORITHMS if name not in VARIANTS)

# Public functions that are no algorithms of data, by name or by package.
NOT_ALGORITHMS = {
    "boosting": "the loop that boosters share; its users are rows",
    "checkpoints": "states on disk",
    "combine.recompute_bound": "exact arithmetic on the host",
    "data": "tables on the host",
    "drive": "progress and time limits on the host",
    "ensemble": "evaluates a model",
    "export": "models as code and data",
    "verify": "exact arithmetic on the host",
    "files": "model files",
    "folds": "draws folds",
    "learners": "make the learners that `fit` takes",
    "layers.margin_head": "makes a head",
    "layers.pair_head": "makes a head",
    "losses": (
        "parts of boosters, and training losses: tests/test_losses.py spreads them by `axis_name`"
        " and on a mesh"
    ),
    "operators": "make the operators that solvers take",
    "relaxations": "make the relaxations that solvers take",
    "sharding": "places arrays",
    "status": "explains a code",
    "make_dataset": "makes a record",
    "pad_dataset": "makes a record",
    "predict": "evaluates a model",
    "predict_scores": "evaluates a model",
    "stack_datasets": "makes a record",
    "unstack": "makes records",
    "validate": "checks values on the host",
    **{
        f"{package}.{name}": "a part of `fit`"
        for package in ("adaboost", "infoboost", "l0", "lpboost", "relaxed_margin", "slipper")
        for name in ("init", "step", "finish")
    },
    **{f"combine.pairwise.{name}": "a part of `fit`" for name in ("init", "step", "finish")},
    **{
        f"monomials.costs.{name}": "a formula"
        for name in ("by_order", "log_binomial", "mdl", "rademacher")
    },
    "example_weights.compact": "shortens a model",
    "example_weights.recompute_bounds": "checks a result",
    "example_weights.sample_scores": "checks a result by random draws",
    "example_weights.validate": "checks values on the host",
    "infoboost.risk_bound": "a formula on the host",
    "infoboost.rounds_needed": "a formula on the host",
    "infoboost.votes": "a part of `fit`",
    "kernels.ball_probability": "a formula",
    "kernels.central_hyperplanes": "makes a kernel",
    "kernels.custom": "makes a kernel",
    "kernels.hyperplanes": "makes a kernel",
    "kernels.isotropic_hyperplanes": "makes a kernel",
    "kernels.least_radius": "a formula",
    "kernels.stumps": "makes a kernel",
    "l0.code_length": "a formula on the host",
    "l0.decode_labels": "a coder on the host",
    "l0.encode_labels": "a coder on the host",
    "l0.list_pairs": "makes a list",
    "l0.listed_code_book": "makes a record",
    "l0.monomial_code_book": "makes a record",
    "l0.places_of_monomials": "reads a result",
    "l0.risk_bound": "a formula on the host",
    "lp.extend": "makes a record",
    "lp.make_program": "makes a record",
    "lp.recompute_bounds": "checks a result",
    "lp.validate": "checks values on the host",
    "monomials.covers": "evaluates a model",
    "monomials.rademacher_complexity": "a mean of `monomials.maximum_agreement`",
    "pair.best_trade_off": "reads a result",
    "pair.confidence_weights": "a formula",
    "projections.binary_entropy_map": "makes a map",
    "projections.entropy_map": "makes a map",
    "projections.mirror_map": "makes a map",
    "projections.power_map": "makes a map",
    "slipper.confidence": "a formula",
    "slipper.rules": "makes a learner",
}


def function_of(name: str) -> str:
    """The dotted name of the public function of a row."""
    return name.split(",")[0]


def is_traceable(name: str) -> bool:
    """Whether it is one program, which the caller's `jit` and `vmap` take."""
    return name in ALGORITHMS and ALGORITHMS[name].traceable


# --- cells ----------------------------------------------------------------------------------------

INSTEAD = {
    "pair.optimal_separator, branch and bound": '`method="sweep"`',
    "pair.leave_one_out, branch and bound": '`method="sweep"`',
    "pair.pareto_front, branch and bound": '`method="sweep"`',
    "l0.fit_exact": "`l0.fit`",
    "l0.fit_large": "`l0.fit`",
    "l0.search_margin": "`l0.path`",
    "l0.choose": "`l0.path`",
    "l0.choose_large": "`l0.path`",
    "example_weights.fit_large": "`example_weights.fit`",
    "example_weights.choose_penalty": "`example_weights.fit`",
}
LOOSE = (
    "it runs with bounds that hold, but the upper bound of one member of four was infinite, with"
    " status OPTIMAL, where on one device it is finite"
)
NO_PROGRAM = "the host drives it: a loop on the host is not a program"
ONE_PROGRAM = "one program: nothing to resume between"
# one program where nothing watches
WITHOUT_ON_STEP = (
    "l0.choose",
    "l0.search_margin",
    "l0.fit_exact",
    "example_weights.choose_penalty",
)
NOT_IN_TWO_PROCESSES = "not tested in two processes"
NO_EXAMPLES = (
    "it takes a linear program, which has no examples; `lpboost.solve` shards the rows of its own"
)

NOT_DETERMINISTIC = "it takes no `deterministic=True`"

_DETERMINISTIC = (
    "sharding/test_deterministic.py::test_fits_have_equal_bits_on_any_number_of_devices[{}]"
)
DETERMINISTIC = {
    "adaboost.fit": ("adaboost, pool", "adaboost, stumps", "adaboost, literals"),
    "infoboost.fit": ("infoboost, pool", "infoboost, stumps"),
    "lpboost.fit": ("lpboost, pool", "lpboost, stumps"),
    "relaxed_margin.fit": ("relaxed_margin.fit, fully_corrective", "relaxed_margin.fit, pairwise"),
    "relaxed_margin.solve": ("solve, soft margin", "solve, hard margin"),
}

TWO_PROCESSES = {
    "adaboost.fit",
    "infoboost.fit",
    "slipper.fit",
    "relaxed_margin.fit",
    "relaxed_margin.solve",
    "relaxed_margin.solve_smoothed",
    "lpboost.fit",
    "lpboost.solve",
    "l0.fit",
    "l0.solve_relaxation",
    "pair.optimal_separator, sweep",
    "pair.leave_one_out",
    "pair.pareto_front",
    "monomials.maximum_agreement",
    "example_weights.fit",
}
_RESUMED = "test_checkpoints.py::test_resumed_fit_ends_in_the_bits_of_the_whole_one"
RESUMES: dict[str, str | tuple[str, ...]] = {
    "adaboost.fit": f"{_RESUMED}[adaboost]",
    "infoboost.fit": f"{_RESUMED}[infoboost]",
    "relaxed_margin.fit": f"{_RESUMED}[relaxed_margin]",
    "lpboost.fit": f"{_RESUMED}[lpboost]",
    "l0.fit": f"{_RESUMED}[l0]",
    "slipper.fit": f"{_RESUMED}[slipper]",
    "combine.pairwise.fit": f"{_RESUMED}[pairwise]",
    "relaxed_margin.solve": (
        "test_checkpoints.py::test_relaxed_margin_of_a_matrix_goes_on",
        "test_resuming.py::test_relaxed_margin_of_streamed_blocks_goes_on_from_every_check",
    ),
    "pair.optimal_separator, branch and bound": (
        "test_checkpoints.py::test_branch_and_bound_of_a_pair_goes_on"
    ),
    "pair.optimal_separator, three classifiers": (
        "test_resuming.py::test_branch_and_bound_in_space_goes_on_from_every_step[removed-margin]"
    ),
    "pair.leave_one_out, branch and bound": (
        "test_resuming.py::test_leave_one_out_goes_on_from_every_step[2]"
    ),
    "pair.pareto_front, branch and bound": (
        "test_resuming.py::test_pareto_front_goes_on_from_every_step[2]"
    ),
    "example_weights.fit_large": "test_checkpoints.py::test_example_weights_of_many_examples_go_on",
    "example_weights.choose_penalty": (
        "test_resuming.py::test_choice_of_the_penalty_goes_on_from_every_penalty"
    ),
    "slipper.choose_rounds": (
        "test_resuming.py::test_choice_of_the_rounds_goes_on_from_every_round"
    ),
    "l0.solve_exact": "test_checkpoints.py::test_exact_l0_goes_on",
    "l0.solve_exact_unnormalised": (
        "l0/test_exact_unnormalised.py::test_a_stopped_search_goes_on_and_a_cutoff_prunes"
    ),
    "l0.fit_large": (
        "l0/test_large.py::test_fit_large_resumes_from_a_checkpoint_and_ends_in_the_same_bits"
    ),
    "l0.choose_large": (
        "l0/test_large.py::test_choose_large_resumes_in_the_folds_and_in_the_last_fit"
    ),
    "l0.search_margin": "test_checkpoints.py::test_search_of_margins_goes_on_from_every_margin",
    "l0.choose": "test_checkpoints.py::test_choice_of_l0_goes_on_from_every_path",
    "l0.fit_exact": "test_checkpoints.py::test_exact_fit_of_l0_goes_on_from_rounds_and_from_nodes",
}

# Rows whose examples are sharded by the entries of tests/contract.py, which have other names there.
_CONTRACT_NAMES = {
    "pair.optimal_separator, sweep": "pair.optimal_separator",
    "combine.fit, greedy": "combine.fit",
}
_ENTRIES = {entry.name for entry in contract.TABLE + contract.CERTIFIED}
_ON_EXPLICIT = (
    "sharding/test_sharding.py::test_{}public_functions_give_the_same_on_an_explicit_mesh[{}]"
)
_ON_OTHERS = (
    "sharding/test_sharding.py"
    "::test_all_public_functions_give_the_same_on_other_meshes_and_under_jit[{}-{}-{}]"
)
_OTHER_MESHES = (("AxisType.Auto", False), ("AxisType.Auto", True), ("AxisType.Explicit", True))
_EXPORTED = "test_every_algorithm_in_one_program_is_exported_for_cuda_and_tpu"
_CHEAP = ("relaxed_margin.solve",)  # as in tests/sharding/test_sharding.py

# Why examples of these are not sharded, or why that is not tested; empty where they are.
UNSHARDED: dict[str, str] = {
    "lp.solve, interior point": NO_EXAMPLES,
}


def contract_name(name: str) -> str | None:
    """The entry of the contract tables for a row, if there is one that
    tests/sharding/test_sharding.py runs.
    """
    entry = _CONTRACT_NAMES.get(name, name)
    return entry if entry in _ENTRIES and entry != "lp.solve" else None


def _batches(name: str) -> Cell:
    if name in WITHOUT_ON_STEP:
        return Cell(
            reason=f"it may be traced, and is not tested under `vmap`: take {INSTEAD[name]}"
        )
    if not is_traceable(name):
        return Cell(reason=f"the host drives it: under `vmap` take {INSTEAD[name]}")
    return Cell(
        (f"test_capabilities.py::test_sharded_batch_gives_what_calls_of_their_own_give[{name}]",)
    )


def _examples(name: str, kind: str) -> Cell:
    if name in UNSHARDED:
        return Cell(reason=UNSHARDED[name])
    if name in LARGE:
        return Cell((f"l0/test_large.py::test_{name[3:]}_on_a_mesh_is_that_of_one_device[{kind}]",))
    entry = contract_name(name)
    if entry is None:
        return Cell(
            (f"test_capabilities.py::test_sharded_examples_give_what_one_device_gives[{name}]",)
        )
    eager = _ON_EXPLICIT.format("" if entry in _CHEAP else "all_", entry)
    if not is_traceable(name):
        return (
            Cell((eager,))
            if kind == "Explicit"
            else Cell(
                reason=(
                    "the host drives it; tested with `Explicit` axes, which it sees as `Auto` ones"
                )
            )
        )
    others = [
        _ON_OTHERS.format(entry, kind_id, traced)
        for kind_id, traced in _OTHER_MESHES
        if kind_id.endswith(kind)
    ]
    return Cell((eager, *others) if kind == "Explicit" else tuple(others))


def _resumes(name: str) -> Cell:
    if name not in RESUMES:
        return Cell(reason=ONE_PROGRAM)
    tests = RESUMES[name]
    return Cell((tests,) if isinstance(tests, str) else tests)


def _has_equal_bits(name: str) -> Cell:
    if name in DETERMINISTIC:
        return Cell(tuple(_DETERMINISTIC.format(case) for case in DETERMINISTIC[name]))
    return Cell(reason=NOT_DETERMINISTIC)


def cells_of(name: str) -> tuple[Cell, ...]:
    """The cells of a row."""
    batches = _batches(name)
    in_two = Cell(
        (f"sharding/test_cluster.py::test_two_processes_agree_with_one[{function_of(name)}]",)
    )
    test = (
        "test_what_the_host_may_watch_is_exported_where_it_does_not"
        if name in WITHOUT_ON_STEP
        else _EXPORTED
    )
    exported = Cell((f"test_export.py::{test}[{name}]",))
    return (
        batches,
        Cell(reason=LOOSE) if function_of(name) == "lp.solve" else batches,
        _examples(name, "Auto"),
        _examples(name, "Explicit"),
        in_two if name in TWO_PROCESSES else Cell(reason=NOT_IN_TWO_PROCESSES),
        _resumes(name),
        _has_equal_bits(name),
        exported if is_traceable(name) or name in WITHOUT_ON_STEP else Cell(reason=NO_PROGRAM),
    )


TABLE = {name: cells_of(name) for name in NAMES}

# --- the page -------------------------------------------------------------------------------------

_HEAD = """# Many devices: what each algorithm runs under

This page is written by `python -m tests.capabilities`. A "yes" is a test, named below; a number is
a reason, below too. "Sharded batch" is a batch of data sets with its first axis sharded over the
axis "batch" of a mesh. "Sharded examples" is one data set with its examples sharded over the axis
"examples" (`jboost.sharding.shard_dataset`), in eager calls; rows whose test is in
tests/sharding/test_sharding.py run under `jit` too. Results are those of one device: exact methods
to the bit for integer weights, others within their tolerance. "Equal bits" are those of
`deterministic=True` for any weights: see [Batches and devices](batches-and-devices.md).
"""

GATHERED = {
    (
        "adaboost, infoboost, relaxed_margin, lpboost over `pool` and `literals`;"
        " relaxed_margin.solve, lpboost.solve; capped simplices"
    ): ("nothing that grows with the examples: sums over the examples are exchanged"),
    "derivatives of lpboost.solve, relaxed_margin.solve and solve_smoothed": (
        "nothing that grows with the examples: sums, and for votes and example weights of"
        " lpboost.solve a matrix of as many rows and columns as there are votes, and one more, from"
        " each device; of packed matrices all that the linear program holds"
    ),
    "boosters over `stumps`": (
        "the example weights and one sorted column in each round, 12 bytes an example: the sorted"
        " examples of a feature are on one device"
    ),
    "projections.projection_simplex, projections.projection_l1_ball": "the vector: they sort it",
    "slipper": (
        "4 bytes an example in each round, for the random split into examples that grow a rule and"
        " those that prune it"
    ),
    "pair.optimal_separator by the sweep, pair.leave_one_out": (
        "all points, once: every device has them, and sweeps its share of the centres"
    ),
    "example_weights.fit": (
        "the kernel matrix of m x m entries: it runs on a mesh and saves no memory"
    ),
    "l0.solve_relaxation, l0.fit, l0.path, l0.solve_exact, l0.strengthen, l0.solve_unnormalised,"
    " l0.solve_exact_unnormalised, l0.solve_linear_margin": (
        "the pool and the examples: they run on a mesh, replicated, and save no memory. Within one"
        " process each device searches its part of the pairs for cuts, and of"
        " `solver=AllPairsConfig()` it holds its part of the vectors with an entry for each pair,"
        " which take the most memory there"
    ),
    "monomials.maximum_agreement, monomials.greedy": (
        "the examples: each device works on its part of every batch of nodes, which saves no memory"
    ),
    "pair.pareto_front, three classifiers, combine": (
        "all points: they run on a mesh, replicated but for sweeps, and save no memory"
    ),
    "algorithms that the host drives": (
        "the arrays that the host looks at; steps on the device run on one device or replicated,"
        " but for those of branch and bound of a pair: each device divides a chunk of the search"
    ),
}


def _reasons() -> list[str]:
    return list(
        dict.fromkeys(cell.reason for cells in TABLE.values() for cell in cells if cell.reason)
    )


def page() -> str:
    """The text of docs/many-devices.md."""
    reasons = _reasons()
    lines = [
        _HEAD,
        "| algorithm | " + " | ".join(COLUMNS) + " |",
        "|---" * (len(COLUMNS) + 1) + "|",
    ]
    for name, cells in TABLE.items():
        lines.append(
            f"| {name} | "
            + " | ".join(
                "yes" if cell.tests else f"({reasons.index(cell.reason) + 1})" for cell in cells
            )
            + " |"
        )
    lines += [
        "",
        "Reasons:",
        "",
        *(
            f"{number}. {reason[0].upper() + reason[1:]}."
            for number, reason in enumerate(reasons, 1)
        ),
    ]
    lines += ["", "Tests, in `tests/`; the name of the algorithm is their parameter:", ""]
    for place, column in enumerate(COLUMNS):
        tests = dict.fromkeys(
            test.partition("[")[0] for cells in TABLE.values() for test in cells[place].tests
        )
        lines.append(f"- {column}: " + ", ".join(f"`{test}`" for test in tests) + ".")
    lines += [
        "",
        "## What is gathered on a mesh",
        "",
        "| algorithm | what every device gets of all examples |",
        "|---|---|",
    ]
    lines += [f"| {name} | {what} |" for name, what in GATHERED.items()]
    lines += [
        "",
        (
            "The readings of compiled programs are"
            " `sharding/test_sharding.py::test_nothing_that_grows_with_the_examples_is_gathered`"
            " and `lpboost/test_spread_derivatives.py::"
            "test_nothing_that_grows_with_the_examples_is_gathered_for_derivatives`."
        ),
        "",
    ]
    return "\n".join(lines)


def main() -> int:
    """Writes the page."""
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
