"""Real input on the outer floor: tables from files and from scikit-learn, base classifiers trained on them, synthetic sets."""

from jboost.data import classifiers, embedded, readers, synthetic, table

__all__ = ["classifiers", "embedded", "readers", "synthetic", "table"]
