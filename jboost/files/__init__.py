"""Model files without pickle.

docs/model-files.md documents the format, and what a reader refuses.

A model file is a zip archive that `numpy.load(path, allow_pickle=False)` reads as well. It holds
one `<field>.npy` for every array of the model (a field of a model inside a model is
`<field>.<field>.npy`, an entry of a list `<field>.<index>.npy`) and `header.json`:

    format           "jboost-model"
    format_version   1; a reader refuses a greater one
    jboost_version   the version that wrote the file
    model            {"type": name, "fields": {field: {"dtype", "shape"} of an array, or a model,
                     list, tuple or dict again}}, with "host": true for an entry of a dict that is
                     an array of NumPy of a 64-bit type, and is read as one; a record (a learner,
                     its cost function, a binarizer) is {"type": name, "settings": {field: value}},
                     a value being any JSON (a list stands for a tuple), a record, or {"dtype",
                     "shape", "host": whether NumPy holds it} of an array. The settings of a
                     learner are null where a file cannot hold them
    metadata         what the writer added, any JSON; the command line keeps the names of the
                     scores and of the labels there
"""

from jboost.files.header import package_version
from jboost.files.reading import load, load_metadata
from jboost.files.registry import register
from jboost.files.writing import save

__all__ = [
    "load",
    "load_metadata",
    "package_version",
    "register",
    "save",
]
