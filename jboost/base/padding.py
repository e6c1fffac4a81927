"""Data sets of similar size in one shape, so that they share what is compiled."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from jboost.base import check, meshes
from jboost.base.types import Dataset, PyTree

_STEPS = 4  # sizes per doubling, so that each is at most 1.25 times the one before


def pad_dataset(
    dataset: Dataset, *, num_examples: int | None = None, num_features: int | None = None
) -> Dataset:
    """The data set with examples that are masked out and columns of zeros behind its own.

    Functions compile anew for each shape. Data sets that are padded to one shape share a program.
    Masked examples change no result. Columns of zeros change none for learners of stumps (they have
    no split), pools of columns with negations (they have no edge) and monomials (their literals
    hold nowhere or everywhere; tell costs how many attributes there are, as in
    `jboost.monomials.costs.mdl(num_attributes=N)`). For `learners.literals` a column of zeros is
    the constant hypothesis, and for `learners.trained` a further input: pad examples only.

    Args:
      dataset: m examples, N columns; it may be traced. Rows of any other shape, as images, keep it.
      num_examples: at least m, static; None for m.
      num_features: at least N, static; None for N, and for rows that are not columns.

    Returns:
      A `Dataset` of `num_examples` examples and `num_features` columns, with the dtypes of the
      given one. Padding has features 0, label +1, weight 1 and mask False.

    Raises:
      ValueError: naming the argument, for a size below that of the data set or one that is no whole
        number.

    >>> import jboost
    >>> dataset = jboost.make_dataset([[1.0], [2.0]], [1, -1])
    >>> padded = jboost.pad_dataset(dataset, num_examples=3, num_features=2)
    >>> padded.features.tolist(), padded.mask.tolist()
    ([[1.0, 0.0], [2.0, 0.0], [0.0, 0.0]], [True, True, False])
    """
    if not isinstance(dataset, Dataset):
        raise ValueError(
            f"dataset is a {type(dataset).__name__}: expected a jboost.Dataset, as"
            " jboost.make_dataset returns it"
        )
    have_examples, have_features, *further = dataset.features.shape
    if num_features is not None:
        check.matrix("features", dataset.features)
    rows = _missing("num_examples", num_examples, have_examples, "examples")
    columns = _missing("num_features", num_features, have_features, "columns of features")
    if not rows and not columns:
        return dataset
    return Dataset(
        jnp.pad(dataset.features, ((0, rows), (0, columns), *((0, 0) for _ in further))),
        jnp.pad(dataset.labels, (0, rows), constant_values=1),
        jnp.pad(dataset.weights, (0, rows), constant_values=1),
        jnp.pad(dataset.mask, (0, rows), constant_values=False),
    )


def stack_datasets(datasets: Sequence[Dataset]) -> Dataset:
    """Data sets of different sizes as one batch, for `jax.vmap` of any algorithm.

    Args:
      datasets: one or more, of m_b examples and N_b columns. Fewer columns than the most are filled
        up with columns of zeros; `pad_dataset` says for which learners these change nothing. Rows
        of more axes, as images, must be of one shape.

    Returns:
      A `Dataset` of features [B, m, N] or [B, m, ...] and the others [B, m], with m and N the
      largest sizes. Padding has features 0, label +1, weight 0 and mask False. `unstack` undoes it.

    Raises:
      ValueError: where `datasets` is no list of data sets, or holds none; for rows that cannot have
        one shape.

    >>> import jboost
    >>> batch = jboost.stack_datasets(
    ...     [jboost.make_dataset([[1.0]], [1]), jboost.make_dataset([[2.0], [3.0]], [1, -1])]
    ... )
    >>> batch.features.shape, batch.mask.tolist()
    ((2, 2, 1), [[True, False], [True, True]])
    """
    if not isinstance(datasets, list | tuple) or isinstance(datasets, Dataset) or not datasets:
        raise ValueError(
            f"datasets is a {type(datasets).__name__}: expected a list of one jboost.Dataset or"
            " more"
        )
    for index, dataset in enumerate(datasets):
        if not isinstance(dataset, Dataset):
            raise ValueError(
                f"datasets[{index}] is a {type(dataset).__name__}: expected a jboost.Dataset, as"
                " jboost.make_dataset returns it"
            )
    num_examples = max(dataset.features.shape[0] for dataset in datasets)
    num_features = _shared_width(datasets)
    return Dataset(
        *(
            jnp.stack(leaves)
            for leaves in zip(
                *(_filled_up(dataset, num_examples, num_features) for dataset in datasets),
                strict=True,
            )
        )
    )


def _shared_width(datasets: Sequence[Dataset]) -> int | None:
    """The largest number of columns; None for rows of more axes, which must be of one shape."""
    shapes = {dataset.features.shape[1:] for dataset in datasets}
    if all(len(shape) == 1 for shape in shapes):
        return max(width for (width,) in shapes)
    if len(shapes) > 1:
        raise ValueError(
            f"datasets have rows of shapes {sorted(map(list, shapes))}: expected one shape; "
            "only columns are filled up, so pad or resize the rows first"
        )
    return None


def _filled_up(dataset: Dataset, num_examples: int, num_features: int | None) -> Dataset:
    padded = pad_dataset(dataset, num_examples=num_examples, num_features=num_features)
    own = jnp.arange(num_examples) < dataset.features.shape[0]
    return padded._replace(
        weights=jnp.where(own, padded.weights, jnp.zeros((), padded.weights.dtype))
    )


def unstack(batch: PyTree, *, sizes: Sequence[tuple[int, int]] | None = None) -> list[PyTree]:
    """The members of a batch, one by one: of data sets, or of what a vmapped function returned for
    them; on the host.

    Args:
      batch: a pytree of arrays [B, ...]. Of a batch that is sharded over a mesh, members are on the
        default device; in several processes all must call this.
      sizes: for data sets, (examples, columns) of each member; None to leave out the rows at the
        end that are padding (mask False and weight 0), and to keep all columns. It is ignored for
        other pytrees.

    Raises:
      ValueError: where leaves differ in their first size or are traced, or `sizes` does not fit.

    >>> import jboost
    >>> sets = [jboost.make_dataset([[1.0]], [1]), jboost.make_dataset([[2.0], [3.0]], [1, -1])]
    >>> [each.features.tolist() for each in jboost.unstack(jboost.stack_datasets(sets))]
    [[[1.0]], [[2.0], [3.0]]]
    """
    check.on_host("jboost.unstack", instead="index the batch by a number instead", batch=batch)
    first_sizes = {jnp.shape(leaf)[:1] for leaf in jax.tree.leaves(batch)}
    if len(first_sizes) != 1 or () in first_sizes:
        raise ValueError(
            f"batch has leaves of first sizes {sorted(first_sizes)}: expected one size, the number"
            " of members"
        )
    ((count,),) = first_sizes
    if sizes is not None and len(sizes) != count:
        raise ValueError(
            f"sizes has {len(sizes)} entries, and the batch has {count} members: expected one for"
            " each"
        )
    whole = jax.tree.map(meshes.on_one_device, batch)
    members = [jax.tree.map(lambda leaf, index=index: leaf[index], whole) for index in range(count)]
    if not isinstance(batch, Dataset):
        return members
    return [
        _without_padding(member, None if sizes is None else sizes[index])
        for index, member in enumerate(members)
    ]


def _without_padding(member: Dataset, size: tuple[int, int] | None) -> Dataset:
    if size is None:
        is_own = np.asarray(member.mask) | (np.asarray(member.weights) != 0)
        size = int(np.flatnonzero(is_own)[-1]) + 1 if is_own.any() else 0, member.features.shape[1]
    num_examples, num_features = size
    if num_examples > member.features.shape[0] or num_features > member.features.shape[1]:
        raise ValueError(
            f"sizes holds {size}, and a member has shape {list(member.features.shape)}: pass the"
            " sizes before stacking"
        )
    return Dataset(
        member.features[:num_examples, :num_features], *(leaf[:num_examples] for leaf in member[1:])
    )


def _missing(name: str, wanted: int | None, size: int, what: str) -> int:
    if wanted is None:
        return 0
    check.count(name, wanted, low=0)
    if wanted < size:
        raise ValueError(
            f"{name} is {wanted}, but the data set has {size} {what}: padding only adds, so give"
            f" {size} or more"
        )
    return wanted - size


def shared_size(size: int, *, least: int = 1, doubles_to: int = 1, steps: int = _STEPS) -> int:
    """The smallest of a few sizes that is not below `size`.

    The sizes are `least`, its doubles up to `doubles_to` (both powers of two), and from there on
    `steps` to a doubling: so padding costs little where a computation takes long, and shares one
    program among many sizes where it does not.

    >>> [shared_size(size, least=256, doubles_to=1024) for size in (3, 257, 600, 1025, 3000)]
    [256, 512, 1024, 1280, 3072]
    """
    size = max(size, least)
    power = 1 << (size - 1).bit_length()
    if power <= doubles_to:
        return power
    unit = max(power // (2 * steps), 1)
    return -(-size // unit) * unit
