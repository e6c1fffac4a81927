"""Real input on the outer floor: tables from files and from scikit-learn, base classifiers trained on them, binarization, synthetic sets."""

from jboost.data import binarization, classifiers, embedded, readers, synthetic, table

__all__ = ["binarization", "classifiers", "embedded", "readers", "synthetic", "table"]
