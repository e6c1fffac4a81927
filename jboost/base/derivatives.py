"""Derivatives of results that no program of arithmetic operations has: by a rule, by NaN where
there is no solution, or by an error.

A solver is a loop, and a certified bound is rounded outwards in 64 bits: what JAX makes of either
is slow, impossible or 0. Such a function has a rule instead (`define`). A result without a
derivative goes through `refuse`, so that nobody takes a 0 for one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from jboost.base.types import Array, PyTree

Rule = Callable[[tuple[Any, ...], tuple[Any, ...], Any], PyTree]
_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")
_CONSTANT = (
    "its result is a constant to derivatives; pass what it depends on, or what it returns, through"
    " jax.lax.stop_gradient"
)


def define(function: Callable[..., PyTree], rule: Rule) -> Callable[..., PyTree]:
    """`function(*arguments)`, whose tangents are `rule(arguments, tangents, results)`, linear in
    the tangents.

    The rule may use the results, which carry derivatives themselves: those of second order are
    right where the rule holds in the arguments and the results alike. What it returns for integers
    does not count.

    >>> import jax
    >>> root = define(
    ...     lambda square: square**0.5, lambda arguments, tangents, root: tangents[0] / (2 * root)
    ... )
    >>> float(jax.grad(root)(4.0)), float(jax.grad(jax.grad(root))(4.0))
    (0.25, -0.03125)
    """
    run = jax.custom_jvp(function)

    @run.defjvp
    def _tangents(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[PyTree, PyTree]:
        # not `run`, which would hold itself, and tracers with it
        results = define(function, rule)(*primals)
        return results, jax.tree.map(_matched, results, rule(primals, tangents, results))

    return run


def _matched(result: Array, tangent: Any) -> Any:
    if not _is_float(result):
        return jnp.zeros(jnp.shape(result), jax.dtypes.float0)
    return jnp.broadcast_to(jnp.asarray(tangent, jnp.result_type(result)), jnp.shape(result))


def where(is_known: Array, tangents: PyTree) -> PyTree:
    """Tangents, NaN where nothing is known [] bool, in both modes: a product, whose transpose takes
    the NaN along; of a `where` it would be 0.
    """
    return jax.tree.map(
        lambda leaf: (
            leaf * jnp.where(is_known, 1.0, jnp.nan).astype(leaf.dtype) if _is_float(leaf) else leaf
        ),
        tangents,
    )


def no_change(tree: PyTree) -> PyTree:
    """Tangents of 0 for arrays."""
    return jax.tree.map(
        lambda leaf: (
            jnp.zeros_like(leaf)
            if _is_float(leaf)
            else jnp.zeros(jnp.shape(leaf), jax.dtypes.float0)
        ),
        tree,
    )


def _is_float(leaf: Any) -> bool:
    return jnp.issubdtype(
        leaf.dtype if hasattr(leaf, "dtype") else jnp.result_type(leaf), jnp.floating
    )


# --- what has no derivative -----------------------------------------------------------------------


def refuse(tree: PyTree, name: str, remedy: str) -> PyTree:
    """The arrays as they are; a TypeError where their derivative is used in reverse mode. In
    forward mode it is NaN.

    Forward mode works out the tangents of all results of a program, those too that nobody uses: an
    error would come up for those as well.

    Args:
      tree: arrays.
      name: of the result, as users know it.
      remedy: what to use instead.

    >>> import jax
    >>> float(jax.grad(lambda x: x**2 + 0 * refuse(x, "f", "use g").size)(3.0))
    6.0
    >>> try:
    ...     jax.grad(lambda x: refuse(x, "f", "use g"))(3.0)
    ... except TypeError as error:
    ...     print(error)
    f has no derivative: use g
    """

    def rule(_: tuple[Array], tangents: tuple[Array], result: Array) -> PyTree:
        return refused(result, tangents, name, remedy)

    return jax.tree.map(
        lambda leaf: define(lambda value: value, rule)(leaf) if _is_float(leaf) else leaf, tree
    )


def refused(results: PyTree, tangents: PyTree, name: str, remedy: str) -> PyTree:
    """Tangents of results for a rule of `define`, of which `refuse` tells; they depend on all
    tangents of the arguments.
    """
    total = sum(jnp.sum(leaf) for leaf in jax.tree.leaves(tangents) if _is_float(leaf))
    message = f"{name} has no derivative: {remedy}"

    def of_one(result: Array) -> Array:
        tangent = jnp.broadcast_to(jnp.asarray(total, jnp.result_type(result)), jnp.shape(result))
        return refused_p.bind(tangent, message=message)

    return jax.tree.map(lambda leaf: of_one(leaf) if _is_float(leaf) else leaf, results)


def without(
    name: str, remedy: str = _CONSTANT
) -> Callable[[Callable[_Arguments, _Result]], Callable[_Arguments, _Result]]:
    """A decorator of a public function whose results have no derivative in any of its arguments: as
    of `refuse`.

    >>> import jax
    >>> count = without("count", "it is an integer")(lambda x: jax.numpy.floor(x))
    >>> try:
    ...     jax.grad(count)(2.5)
    ... except TypeError as error:
    ...     print(error)
    count has no derivative: it is an integer
    """

    def decorate(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
        @functools.wraps(function)
        def call(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
            leaves, structure = jax.tree.flatten((args, kwargs))
            traced = {
                place: leaf
                for place, leaf in enumerate(leaves)
                if isinstance(leaf, jax.core.Tracer)
            }
            if not any(_is_float(leaf) for leaf in traced.values()):
                return function(*args, **kwargs)
            traced_places = tuple(traced)
            # a rule outlives the tracers
            known = [None if place in traced else leaf for place, leaf in enumerate(leaves)]

            def of_traced(*arrays: Array) -> PyTree:
                filled = dict(enumerate(known)) | dict(zip(traced_places, arrays, strict=True))
                own_args, own_kwargs = jax.tree.unflatten(structure, filled.values())
                return function(*own_args, **own_kwargs)

            def rule(_: Any, tangents: tuple[Array, ...], results: PyTree) -> PyTree:
                return refused(results, tangents, name, remedy)

            found: _Result = define(of_traced, rule)(*traced.values())  # type: ignore[assignment]
            return found

        return call

    return decorate


refused_p = Primitive("no_derivative")


@refused_p.def_impl
def _all_nan(tangent: Array, *, message: str) -> Array:
    del message
    return jnp.full_like(tangent, jnp.nan)


@refused_p.def_abstract_eval
def _same_type(tangent: Any, *, message: str) -> Any:
    del message
    return tangent


def _raise(cotangent: Any, _: Any, *, message: str) -> Any:
    if type(cotangent) is ad.Zero:
        return [cotangent]
    raise TypeError(message)


def _of_batch(arguments: tuple[Array], axes: tuple[Any], *, message: str) -> tuple[Array, Any]:
    return refused_p.bind(*arguments, message=message), axes[0]


ad.deflinear2(refused_p, _raise)
batching.primitive_batchers[refused_p] = _of_batch
mlir.register_lowering(refused_p, mlir.lower_fun(_all_nan, multiple_results=False))
