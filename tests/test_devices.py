"""The device that computes by default, and programs for loops on the host."""

import jax
import jax.numpy as jnp
import pytest

from jboost.base import devices


def test_the_default_device_is_the_one_that_was_named():
    assert devices.default() == jax.devices()[0]
    assert devices.platform() == jax.default_backend()
    with jax.default_device(jax.devices("cpu")[1]):
        assert devices.default() == jax.devices("cpu")[1]
    with jax.default_device("cpu"):
        assert devices.platform() == "cpu"


def test_programs_of_the_host_have_options_on_a_gpu_alone(monkeypatch):
    @devices.host_jit(static_argnames="power")
    def raised(values, power):
        return values**power

    assert raised(jnp.arange(3.0), power=2).tolist() == [0, 1, 4]
    assert jax.jit(lambda values: raised(values, power=3))(jnp.arange(3.0)).tolist() == [0, 1, 8]
    monkeypatch.setattr(devices, "platform", lambda: "gpu")
    with pytest.raises(Exception, match="compiler_options|xla_gpu"):  # what JAX says of them under a caller's jit
        jax.jit(lambda values: raised(values, power=4))(jnp.arange(3.0))
