"""Meshes of devices and clusters of processes: where arrays are put, so that every public algorithm
runs on many devices.

`initialize_cluster` joins processes, `make_mesh` arranges their devices, `shard_dataset` spreads
the examples of one problem, `shard_batch` the members of a batch; `replicate` and `gather` are for
the rest. All are thin over JAX's own `NamedSharding`.
"""

from jboost.sharding.cluster import initialize_cluster
from jboost.sharding.mesh import make_mesh
from jboost.sharding.placement import gather, replicate, shard_batch, shard_dataset

__all__ = ["gather", "initialize_cluster", "make_mesh", "replicate", "shard_batch", "shard_dataset"]
