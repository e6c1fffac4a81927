"""Input data: tables from files and from scikit-learn, classifiers trained on them, binarization,
merging of equal rows, synthetic data sets.
"""

from jboost.data import binarization, classifiers, embedded, merging, readers, synthetic, table

__all__ = ["binarization", "classifiers", "embedded", "merging", "readers", "synthetic", "table"]
