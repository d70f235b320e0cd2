"""purejaxrl's PPO learns here, unchanged but for the import of the environment."""

import ast
import pathlib
import sys
import types

import jax
import numpy as np
import pytest

from jaxenv._util.library import default_types
from tests import packages

FOLDER = pathlib.Path(__file__).parent / "purejaxrl"
IMPORT, OURS = "import gymnax\n", "from jaxenv.interop import gymnax_v0 as gymnax\n"


def run(name, source):
    module = types.ModuleType(name)
    exec(compile(source, name, "exec"), module.__dict__)
    return module


@pytest.fixture
def ppo(monkeypatch):
    pytest.importorskip("distrax")
    packages.imported("brax")
    # wrappers.py imports navix for a wrapper that ppo.py does not use.
    monkeypatch.setitem(sys.modules, "navix", types.ModuleType("navix"))
    with default_types():
        monkeypatch.setitem(sys.modules, "wrappers", run("wrappers", (FOLDER / "wrappers.py").read_text()))
        source = (FOLDER / "ppo.py").read_text()
        assert source.count(IMPORT) == 1
        yield run("ppo", source.replace(IMPORT, OURS))


def published_config():
    """The config of ``ppo.py``, which is part of its main program."""
    nodes = ast.walk(ast.parse((FOLDER / "ppo.py").read_text()))
    (config,) = (n.value for n in nodes if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == "config")
    return ast.literal_eval(config)


@pytest.mark.filterwarnings("ignore")  # from the imports of brax and distrax
def test_ppo_of_purejaxrl_learns_cart_pole(ppo):
    config = {**published_config(), "TOTAL_TIMESTEPS": 1e5, "DEBUG": False}
    metrics = jax.device_get(jax.jit(ppo.make_train(config))(jax.random.PRNGKey(30))["metrics"])
    returns = metrics["returned_episode_returns"].ravel()[metrics["returned_episode"].ravel()]
    assert np.mean(returns[:100]) < 60
    assert np.mean(returns[-100:]) > 100
