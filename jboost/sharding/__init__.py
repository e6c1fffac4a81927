"""Meshes of devices and clusters of processes, for running the public algorithms on many devices.

`initialize_cluster` joins processes, and `make_mesh` arranges their devices. `shard_dataset` shards
the examples of one problem, and `shard_batch` the members of a batch. `replicate` copies arrays to
all devices, and `gather` returns them to the host. All are thin wrappers of `NamedSharding`.
"""

from jboost.sharding.cluster import initialize_cluster
from jboost.sharding.mesh import make_mesh
from jboost.sharding.placement import gather, replicate, shard_batch, shard_dataset

__all__ = ["gather", "initialize_cluster", "make_mesh", "replicate", "shard_batch", "shard_dataset"]
