"""Real input on the outer floor: tables from files and scikit-learn, classifiers trained on them,
binarization, equal rows as one, synthetic sets.
"""

from jboost.data import binarization, classifiers, embedded, merging, readers, synthetic, table

__all__ = ["binarization", "classifiers", "embedded", "merging", "readers", "synthetic", "table"]
