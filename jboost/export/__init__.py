"""Export of models to Python, SQL, ONNX, JSON, text and JAX. All but JAX run without jboost.

Rules, stumps and votes of scores become conditions on the columns of the table. The thresholds are
adjusted, so that comparisons in 64 bits give the result of the model in its own precision.
"""

from jboost.export.jax_function import to_jax
from jboost.export.json_text import FORMAT_VERSION, to_json
from jboost.export.onnx_model import to_onnx
from jboost.export.python import to_python
from jboost.export.sql import to_sql
from jboost.export.text import to_text

__all__ = ["FORMAT_VERSION", "to_jax", "to_json", "to_onnx", "to_python", "to_sql", "to_text"]
