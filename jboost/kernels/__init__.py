"""Kernels defined by a measure on hypotheses: the probability that a random hypothesis separates
two points.
"""

from jboost.kernels.chunks import weighted_disagreement
from jboost.kernels.planes import (
    Hyperplanes,
    IsotropicHyperplanes,
    ball_probability,
    disagreement,
    hyperplanes,
    isotropic_hyperplanes,
    least_radius,
)
from jboost.kernels.simple import CentralHyperplanes, RandomStumps, central_hyperplanes, stumps
from jboost.kernels.types import CustomKernel, Kernel, custom

__all__ = [
    "CentralHyperplanes",
    "CustomKernel",
    "Hyperplanes",
    "IsotropicHyperplanes",
    "Kernel",
    "RandomStumps",
    "ball_probability",
    "central_hyperplanes",
    "custom",
    "disagreement",
    "hyperplanes",
    "isotropic_hyperplanes",
    "least_radius",
    "stumps",
    "weighted_disagreement",
]
