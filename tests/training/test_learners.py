"""Learners stand alone: each is one file of public names, which is copied, changed and trained outside the package."""

import ast
import importlib
import pathlib
import sys

import jax
import numpy as np
import pytest

from jaxenv import training
from jaxenv.training import _algorithms, alphazero, dqn, ppo, sac, ued
from tests.rows import assert_equal

SHORT = {"num_evaluations": 1, "num_eval_episodes": 2, "max_eval_steps": 5, "hidden": (4,)}
# Learner, its settings for two updates, and a change of its loss.
COPIES = {
    "ppo": (
        ppo,
        {"num_envs": 4, "num_steps": 8, "total_steps": 64, "num_minibatches": 1, "entropy_cost": 0.1, **SHORT},
        ("- surrogate - settings.entropy_cost * entropy", "- surrogate + settings.entropy_cost * entropy"),
    ),
    "dqn": (
        dqn,
        {"num_envs": 4, "num_steps": 8, "warmup_steps": 32, "total_steps": 96, "num_gradient_steps": 2, **SHORT},
        ("0.5 * error**2", "jnp.log(jnp.cosh(error))"),
    ),
    "sac": (
        sac,
        {"num_envs": 4, "warmup_steps": 32, "total_steps": 40, "batch_size": 8, **SHORT},
        ("cost = temperature * log_p - value", "cost = 2 * temperature * log_p - value"),
    ),
}


def source(learner):
    return pathlib.Path(learner.__file__).read_text()


@pytest.mark.parametrize("learner", [ppo, dqn, sac, ued, alphazero])
def test_a_learner_uses_only_what_a_user_can_import(learner):
    used, allowed = set(), {*sys.stdlib_module_names, "flax", "jax", "jaxenv", "mctx", "numpy", "optax"}
    for node in ast.walk(ast.parse(source(learner))):
        if isinstance(node, ast.Import):
            used |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            used |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Attribute) and not node.attr.endswith("__"):
            used.add(f"jaxenv.{node.attr}")
    parts = {name: name.split(".") for name in used}
    assert [name for name, path in parts.items() if path[0] not in allowed] == []
    assert [name for name, path in parts.items() if any(part.startswith("_") for part in path)] == []


@pytest.mark.parametrize("name", COPIES)
def test_a_copy_of_a_learner_with_another_loss_trains_outside_the_package(name, tmp_path, monkeypatch):
    learner, settings, (old, new) = COPIES[name]
    text = source(learner)
    assert text.count(old) == 1
    (tmp_path / f"copied_{name}.py").write_text(text.replace(old, new))
    monkeypatch.syspath_prepend(tmp_path)
    copy = importlib.import_module(f"copied_{name}")
    start, end = {}, {}
    for module in (learner, copy):
        config = module.Config(**settings)
        assert config.num_updates == 2
        train = module.make_train(config)
        start[module] = jax.jit(train.init)(jax.random.key(0)).params
        run, curve = jax.jit(train)(jax.random.key(0))
        end[module] = run.params
        assert run.update == 2
        assert all(np.isfinite(x).all() for x in jax.tree.leaves((run.params, curve.losses)))
    assert_equal(jax.tree.leaves(start[copy]), jax.tree.leaves(start[learner]))
    changed = [
        not np.array_equal(a, b) for a, b in zip(jax.tree.leaves(end[copy]), jax.tree.leaves(end[learner]), strict=True)
    ]
    assert any(changed)
    with pytest.raises(ValueError, match=rf"^copied_{name}\.Config: gamma .*got 2"):
        copy.Config(gamma=2)


def test_a_learner_whose_libraries_are_missing_says_what_to_install(tmp_path, monkeypatch):
    (tmp_path / "learner_with_optax.py").write_text("import optax\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "optax", None)
    monkeypatch.setitem(_algorithms.MODULES, "other", "learner_with_optax")
    with pytest.raises(ImportError, match=r"^jaxenv\.training needs optax: pip.*\[training\]"):
        training.other
