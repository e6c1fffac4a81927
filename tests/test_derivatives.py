"""Derivatives of public functions against central differences, in forward and reverse mode; what has none says so."""

import jax
import jax.numpy as jnp
import numpy as np

import jboost


def test_mean_exponential_has_the_derivative_of_the_mean_loss_and_keeps_its_bound():
    log_losses = jnp.log(jnp.array([0.1, 0.2, 0.3])) - jnp.array([0.5, -2.0, 8.0])
    log_losses = jnp.append(log_losses, -jnp.inf)

    def mean(log_losses):
        return jboost.losses.mean_exponential(jboost.losses.ExponentialLoss(log_losses, 4 + 2 * jnp.max(jnp.abs(log_losses[:3]))))

    losses = np.exp(np.asarray(log_losses, np.float64))
    assert losses.sum() <= mean(log_losses) <= losses.sum() * (1 + 1e-5)
    for jacobian in (jax.jacfwd, jax.jacrev, lambda function: jax.jit(jax.grad(function))):
        np.testing.assert_allclose(jacobian(mean)(log_losses), losses, rtol=1e-5)
    np.testing.assert_allclose(jax.hessian(mean)(log_losses), np.diag(losses), rtol=1e-5)
