"""Initialisation of a cluster of processes."""

from __future__ import annotations

import os
import socket
import time

import jax

from jboost.base import check

# Prefixes of the environment variables that job schedulers set.
_CLUSTERS = (
    "SLURM_",
    "OMPI_",
    "PMI_",
    "PMIX_",
    "JOB_COMPLETION_INDEX",
    "TPU_WORKER_",
    "MEGASCALE_",
)
_NUM_TASKS = ("SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
# After this time without a heartbeat, a process counts as lost and the other processes end.
_HEARTBEAT_SECONDS = 30


def initialize_cluster(
    coordinator_address: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
    *,
    local_device_ids: int | list[int] | None = None,
    timeout: int = 120,
    shutdown_timeout: int = 30,
) -> int:
    """Connects this process to the other processes of its job. Call it before any device is used.

    Without arguments, the job is detected by JAX (Slurm, Open MPI, Kubernetes, TPU pods), or is
    read from the environment variables JBOOST_COORDINATOR, JBOOST_NUM_PROCESSES and
    JBOOST_PROCESS_ID, which `scripts/cluster` sets. In a single process, or if called again, the
    function does nothing.

    If a process is killed, or its machine is lost, the others end about 30 seconds later. A process
    that ends by itself, also after a Python exception, waits for the others, which may wait for it
    in a collective; after `shutdown_timeout` it ends, and JAX ends the others. In both cases JAX
    ends a process without a Python exception, and says why on the standard error.

    Args:
      coordinator_address: "host:port" on which process 0 listens.
      num_processes: the number of processes.
      process_id: the number of this process, from 0.
      local_device_ids: the devices of the machine that this process uses; None for all, or for one
        device per process under Slurm and Open MPI.
      timeout: the time in seconds that processes wait for the coordinator and for each other.
      shutdown_timeout: the time in seconds that a process waits, at its end, for the others to end.
        It must be longer than what one process does alone after the last common step, such as
        writing files.

    Returns:
      The number of processes.

    Raises:
      ValueError: naming the argument, if only some of the first three are given, or one is out of
        range.
      TimeoutError: with the address, on every process but the first one, if the coordinator does
        not respond within `timeout`, also where JAX detects the cluster. If process 0 waits for
        others in vain, or if processes do not come to it, JAX ends all that wait after `timeout`
        seconds, without a Python exception, and writes DEADLINE_EXCEEDED on the standard error.

    >>> import jboost
    >>> jboost.sharding.initialize_cluster(num_processes=1, process_id=0)
    1
    """
    check.count("timeout", timeout, low=1)
    check.count("shutdown_timeout", shutdown_timeout, low=1)
    if jax.distributed.is_initialized():
        return jax.process_count()
    address = (
        coordinator_address
        or os.environ.get("JBOOST_COORDINATOR")
        or os.environ.get("JAX_COORDINATOR_ADDRESS")
    )
    total = _number("num_processes", num_processes, "JBOOST_NUM_PROCESSES")
    number = _number("process_id", process_id, "JBOOST_PROCESS_ID")
    if total is not None and total <= 1:
        return 1
    _check_numbers(address, total, number)
    expected = (address, number) if total is not None else _detected(address, timeout)
    if expected[0] is not None and expected[1]:
        _await_coordinator(expected[0], timeout)
    try:
        _connect(address, total, number, local_device_ids, timeout, shutdown_timeout)
    except (ValueError, RuntimeError) as error:
        if (address, total, number) == (None, None, None) and _is_alone(error):
            return 1
        raise
    return jax.process_count()


def _detected(address: str | None, timeout: int) -> tuple[str | None, int | None]:
    """The address of the coordinator and the number of this process, as JAX detects them.

    There is no public function for them. Where the private one of JAX has changed or fails, the
    result is (None, None): then there is no wait with an error, and `jax.distributed.initialize`
    reports what it finds.
    """
    try:
        from jax._src import clusters

        address, total, number, _ = clusters.ClusterEnv.auto_detect_unset_distributed_params(
            address, None, None, None, None, timeout
        )
    except Exception:  # any, as said
        return None, None
    if not isinstance(address, str) or not isinstance(number, int) or total == 1:
        return None, None
    return address, number


def _connect(
    address: str | None,
    total: int | None,
    number: int | None,
    local_device_ids: int | list[int] | None,
    timeout: int,
    shutdown_timeout: int,
) -> None:
    """Connects this process to the others. Raises TimeoutError if they do not find each other."""
    try:
        jax.distributed.initialize(
            address,
            total,
            number,
            local_device_ids,
            cluster_detection_method=None if total is None else "deactivate",
            initialization_timeout=timeout,
            heartbeat_timeout_seconds=_HEARTBEAT_SECONDS,
            shutdown_timeout_seconds=shutdown_timeout,
        )
    except jax.errors.JaxRuntimeError as error:
        raise TimeoutError(
            f"the processes of this job did not find each other within {timeout} s (coordinator"
            f" {address or 'as detected'}): check that all were started, that the port is free and"
            " open, or raise timeout"
        ) from error


def _is_alone(error: Exception) -> bool:
    """Whether JAX failed because there is no cluster to join.

    Raises ValueError if environment variables show that there are several processes. Otherwise each
    process would run the whole job.
    """
    tasks = next(
        (
            name
            for name in _NUM_TASKS
            if os.environ.get(name, "").isdigit() and int(os.environ[name]) > 1
        ),
        None,
    )
    if tasks is not None and isinstance(error, ValueError):
        raise ValueError(
            f"{tasks} is {os.environ[tasks]}, but JAX did not find the other processes ({error}):"
            " start this by srun or mpirun, or pass coordinator_address, num_processes and"
            " process_id"
        ) from error
    is_in_job = any(name.startswith(_CLUSTERS) for name in os.environ)
    # JAX raises RuntimeError if it has already started, which is allowed for a single process
    return isinstance(error, ValueError) or not is_in_job


def _number(name: str, given: int | None, variable: str) -> int | None:
    if given is not None:
        check.count(name, given, low=0)
        return int(given)
    text = os.environ.get(variable)
    if text is None:
        return None
    if not text.isdigit():
        raise ValueError(f"{variable} is {text!r}: expected a whole number, {name}")
    return int(text)


def _check_numbers(address: str | None, total: int | None, number: int | None) -> None:
    if (total is None) != (number is None):
        missing = "num_processes" if total is None else "process_id"
        raise ValueError(
            f"{missing} is missing: pass both num_processes and process_id, or neither where JAX"
            " detects the cluster"
        )
    if total is not None and number is not None:
        if number >= total:
            raise ValueError(
                f"process_id is {number} of {total} processes: expected a number from 0 to"
                f" {total - 1}"
            )
        if address is None:
            raise ValueError("coordinator_address is missing: pass 'host:port' of process 0")
    if address is not None and not (":" in address and address.rsplit(":", 1)[1].isdigit()):
        raise ValueError(f"coordinator_address is {address!r}: expected 'host:port'")


def _await_coordinator(address: str, timeout: int) -> None:
    """Waits until `address` accepts a connection, or raises TimeoutError.

    On a timeout JAX itself ends the process without a Python exception.
    """
    host, port = address.rsplit(":", 1)
    deadline, reason = time.monotonic() + timeout, ""
    while time.monotonic() < deadline:
        try:
            with socket.create_connection((host.strip("[]"), int(port)), timeout=5):
                return
        except OSError as error:
            reason = str(error)
            time.sleep(0.2)
    raise TimeoutError(
        f"no coordinator answers at {address} within {timeout} s ({reason}): start process 0 there,"
        " check the address and that the port is open, or raise timeout"
    )
