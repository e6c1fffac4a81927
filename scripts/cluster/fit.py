"""One model over all processes of a cluster: `scripts/cluster/launch --processes 2 .venv/bin/python
scripts/cluster/fit.py --help`.

Each process makes or reads its own rows. They stay on its devices: what goes between processes are
sums over the examples.

With --checkpoint, SIGTERM to any process ends the fit of all after the same round. The state is
saved, and every process ends with status 75: start the same command again with --resume.
"""

import argparse
import os
import pathlib
import sys
import time

import jax
import numpy as np

import jboost

NUM_COLUMNS = 20
NOISE = 0.05  # of the labels that are made
STOPPED = os.EX_TEMPFAIL  # 75: slurm.sbatch and kubernetes.yaml start the job again on it


def main() -> int:
    """Fits, prints from process 0, returns 0, or `STOPPED` after SIGTERM."""
    options = parse()
    num_processes = jboost.sharding.initialize_cluster(timeout=options.timeout)
    if options.checkpoint is None:
        return run(options, num_processes, None)
    with jboost.drive.StopOnSigterm() as stop:
        return run(options, num_processes, stop)


def run(
    options: argparse.Namespace, num_processes: int, stop: jboost.drive.StopOnSigterm | None
) -> int:
    """As `main`, in the processes of the cluster."""
    mesh = jboost.sharding.make_mesh()
    say(f"{num_processes} processes, {mesh.size} devices ({jax.devices()[0].device_kind})")
    features, labels = (
        read_rows(options.data) if options.data else make_rows(options.rows, num_processes)
    )
    dataset = jboost.sharding.shard_dataset(jboost.make_dataset(features, labels), mesh)
    say(f"{dataset.labels.shape[0]} rows, {dataset.features.shape[1]} columns")

    started = time.monotonic()
    fitted = fit(options, dataset, stop)
    if stop is not None and stop.is_stopped:
        say(
            f"stopped by SIGTERM after {int(fitted.num_rounds)} rounds; the state is saved in"
            f" {options.checkpoint}: start again with --resume"
        )
        return STOPPED
    certificate = jboost.sharding.gather(fitted.certificate._replace(example_weights=None))
    status = jboost.status.Status(int(fitted.status)).name
    say(
        f"{options.method}: {int(fitted.num_rounds)} rounds in {time.monotonic() - started:.1f} s,"
        f" {status}"
    )
    say(f"certified: {float(certificate.lower_bound):.6f} <= {float(certificate.upper_bound):.6f}")
    errors = jax.numpy.mean(
        (jboost.predict(fitted.ensemble, dataset.features) != dataset.labels) & dataset.mask
    )
    say(f"training errors: {float(jboost.sharding.gather(errors)):.4f}")
    return 0


def parse() -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(
        description="Fits one ensemble of stumps over the rows of all processes."
    )
    parser.add_argument(
        "--data",
        type=pathlib.Path,
        help="folder with rows-0.npz, rows-1.npz, ... (arrays features, labels), one a process",
    )
    parser.add_argument(
        "--rows",
        type=int,
        default=100_000,
        help="without --data: rows to make, over all processes (default: %(default)s)",
    )
    parser.add_argument(
        "--method", choices=("adaboost", "relaxed_margin", "lpboost"), default="adaboost"
    )
    parser.add_argument(
        "--rounds", type=int, default=20, help="rounds of boosting (default: %(default)s)"
    )
    parser.add_argument(
        "--checkpoint",
        type=pathlib.Path,
        help="folder for checkpoints, on a file system that all processes share",
    )
    parser.add_argument(
        "--resume", action="store_true", help="go on from the newest checkpoint, if there is one"
    )
    parser.add_argument(
        "--every", type=float, default=60, help="seconds between checkpoints (default: %(default)s)"
    )
    parser.add_argument(
        "--timeout",
        type=int,
        default=300,
        help="seconds to wait for the other processes (default: %(default)s)",
    )
    options = parser.parse_args()
    if (
        options.checkpoint
        and not options.resume
        and options.checkpoint.exists()
        and any(options.checkpoint.iterdir())
    ):
        parser.error(
            f"{options.checkpoint} is not empty: pass --resume to go on from there, or name another"
            " folder"
        )
    return options


def read_rows(folder: pathlib.Path) -> tuple[np.ndarray, np.ndarray]:
    """The rows of this process."""
    with np.load(folder / f"rows-{jax.process_index()}.npz") as rows:
        return rows["features"], rows["labels"]


def make_rows(num_rows: int, num_processes: int) -> tuple[np.ndarray, np.ndarray]:
    """This process's share of rows whose label follows three of the columns, but for some noise."""
    random = np.random.default_rng(jax.process_index())
    own = num_rows // num_processes + (jax.process_index() < num_rows % num_processes)
    features = random.normal(size=(own, NUM_COLUMNS)).astype(np.float32)
    labels = np.where(features[:, 0] + features[:, 1] > features[:, 2], 1.0, -1.0).astype(
        np.float32
    )
    return features, np.where(random.random(own) < NOISE, -labels, labels)


def fit(
    options: argparse.Namespace,
    dataset: jboost.Dataset,
    stop: jboost.drive.StopOnSigterm | None,
) -> jboost.boosting.Fit:
    """The fit, with checkpoints where a folder is given."""
    method, learner = getattr(jboost, options.method), jboost.learners.stumps()
    if options.checkpoint is None:
        return method.fit(dataset, learner, max_rounds=options.rounds)
    return jboost.checkpoints.fit(
        method,
        dataset,
        learner,
        folder=options.checkpoint,
        every_seconds=options.every,
        on_step=jboost.drive.all_of(show, stop),
        max_rounds=options.rounds,
    )


def show(state: jboost.boosting.State, info: jboost.boosting.Info) -> bool:
    """A line after each round."""
    say(f"round {int(info.num_rounds)}: edge {float(info.edge):.4f}")
    return True


def say(text: str) -> None:
    """Prints from process 0."""
    if jax.process_index() == 0:
        print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
