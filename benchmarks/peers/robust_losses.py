"""Robust losses of PyTorch, by the package `dro` (Liu, Wang and others 2025), where both are
installed.

Only the module of its losses is loaded: the package itself imports solvers and data sets.
"""

from __future__ import annotations

import importlib.util
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

GEOMETRIES = {"cvar": "cvar", "chi_square_dro": "chi-square"}


def load() -> tuple[Any, types.ModuleType] | None:
    """PyTorch, and the module of losses of `dro`; None where one of them is missing."""
    places = {name: importlib.util.find_spec(name) for name in ("torch", "dro")}
    origin = places["dro"].origin if places["dro"] else None
    if places["torch"] is None or origin is None:
        return None
    path = Path(origin).parent / "neural_model" / "fdro_utils.py"
    spec = importlib.util.spec_from_file_location("dro_losses", path)
    if spec is None or spec.loader is None:
        return None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return importlib.import_module("torch"), module


def steps(
    params: list[np.ndarray],
    inputs: np.ndarray,
    labels: np.ndarray,
    sizes: dict[str, float],
    *,
    rate: float,
    num_steps: int,
) -> dict[str, Callable[[], Any]]:
    """Training steps of a network without biases, by the mean cross-entropy and by each loss.

    Args:
      params: the matrices of the layers.
      inputs: [m, n].
      labels: [m] classes.
      sizes: of the sets of distributions, by names of `GEOMETRIES`; [] each.
      rate: of gradient descent.
      num_steps: in one call.
    """
    loaded = load()
    if loaded is None:
        return {}
    torch, module = loaded
    features, classes = torch.from_numpy(inputs.copy()), torch.from_numpy(labels.astype(np.int64))
    reductions = {"PyTorch mean": torch.nn.functional.cross_entropy}
    for name, size in sizes.items():
        reductions[f"PyTorch dro, {name}"] = module.RobustLoss(size, 0.0, GEOMETRIES[name])

    def train(reduce: Callable[..., Any]) -> float:
        layers = [torch.nn.Parameter(torch.from_numpy(matrix.copy())) for matrix in params]
        optimizer = torch.optim.SGD(layers, lr=rate)
        for _ in range(num_steps):
            hidden = features
            for matrix in layers[:-1]:
                hidden = torch.relu(hidden @ matrix)
            loss = reduce(hidden @ layers[-1], classes)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return loss.item()

    return {name: lambda reduce=reduce: train(reduce) for name, reduce in reductions.items()}


def gradients(
    values: np.ndarray, sizes: dict[str, float], *, num_times: int
) -> dict[str, Callable[[], Any]]:
    """Values and gradients of the losses of a batch [m], `num_times` in one call."""
    loaded = load()
    if loaded is None:
        return {}
    torch, module = loaded

    def differentiate(loss: Any) -> float:
        now = torch.from_numpy(values.copy())
        for _ in range(num_times):
            now.requires_grad_(True)
            value = loss._compute_robust_loss(now)
            (gradient,) = torch.autograd.grad(value, now)
            now = (now + 1e-3 * (gradient - value / len(values))).detach()
        return value.item()

    found = {
        name: module.RobustLoss(size, 0.0, GEOMETRIES[name], is_regression=True)
        for name, size in sizes.items()
    }
    return {
        f"PyTorch dro, {name}": lambda loss=loss: differentiate(loss)
        for name, loss in found.items()
    }
