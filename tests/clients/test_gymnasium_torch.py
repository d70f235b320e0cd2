"""PyTorch reads the arrays of vector environments without a copy, directly and through Gymnasium's wrappers."""

import jax.numpy as jnp
import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("array_api_compat")

from gymnasium.wrappers import vector as wrappers  # noqa: E402

from jaxenv.interop import to_gymnasium_vector  # noqa: E402


def cart_poles(mode, arrays):
    return to_gymnasium_vector("CartPole-v1", 3, autoreset=mode, max_episode_steps=3, arrays=arrays)


def test_tensors_share_the_memory_of_observations_and_outlive_them():
    envs = cart_poles("same_step", "jax")
    observation, _ = envs.reset(seed=0)
    tensor = torch.from_dlpack(observation)
    assert tensor.data_ptr() == observation.unsafe_buffer_pointer()
    kept = tensor.clone()
    del observation
    for _ in range(5):
        envs.step(np.ones(3, np.int64))
    assert torch.equal(tensor, kept)


@pytest.mark.parametrize("mode", ["next_step", "same_step", None])
@pytest.mark.parametrize(("arrays", "wrapper"), [("jax", "JaxToTorch"), ("numpy", "NumpyToTorch")])
def test_wrappers_convert_to_torch_and_back(mode, arrays, wrapper):
    envs, plain = getattr(wrappers, wrapper)(cart_poles(mode, arrays)), cart_poles(mode, "numpy")
    observation, infos = envs.reset(seed=0)
    assert isinstance(infos["time_limit_reached"], torch.Tensor)
    np.testing.assert_allclose(observation.numpy(), plain.reset(seed=0)[0], rtol=1e-6)
    for _ in range(2):  # an info of objects, as final_obs is in NumPy, has no counterpart in torch
        row = envs.step(torch.tensor([0, 1, 1]))
        for mine, expected in zip(row[:4], plain.step(np.array([0, 1, 1]))[:4], strict=True):
            assert isinstance(mine, torch.Tensor)
            np.testing.assert_allclose(mine.numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize("array", [np.array, torch.tensor, jnp.array])
def test_masks_of_any_kind_pass_the_wrapper(array):
    envs = wrappers.JaxToTorch(cart_poles(None, "jax"))
    first, _ = envs.reset(seed=[0, 1, 2])
    moved = envs.step(torch.ones(3, dtype=torch.int32))[0]
    mask = array([True, False, False])
    assert torch.equal(envs.reset(seed=[0, 1, 2], options={"reset_mask": mask})[0][1], moved[1])
    assert torch.equal(envs.reset(seed=[0, 1, 2], options={"reset_mask": mask})[0][0], first[0])
