"""Arguments of learners and runs are refused by name, before anything is compiled or started."""

import dataclasses

import jax
import jax.numpy as jnp
import pytest

import jaxenv
from jaxenv import training
from jaxenv.training import dqn, ppo, sac, seeds
from tests.errors import like

config = ppo.Config(num_envs=2, num_steps=4, num_minibatches=1, total_steps=64, num_evaluations=1, num_eval_episodes=2)
stack = jaxenv.make("CartPole-v1", num_envs=2)
keys = jax.random.split(jax.random.key(0), 3)


def train(hyperparameters=None, key=None):
    return ppo.make_train(config)(jax.random.key(0) if key is None else key, hyperparameters)


CALLS = {
    # --- what a run is made of ---
    "id for a stack": (
        lambda: ppo.make_train(config, "CartPole-v1", stack),
        "ppo: env ...got 'Car",
    ),
    "id to evaluate": (lambda: ppo.make_train(config, stack, 3), "ppo: eval_env ...got 3"),
    "config of another learner": (
        lambda: ppo.make_train(dqn.Config()),
        "ppo: config ...got Config",
    ),
    "dict for a config": (lambda: sac.make_train({}), "sac: config ...got a dict"),
    "list for a mesh": (
        lambda: ppo.make_train(config, mesh=[1]),
        "ppo.Config: mesh ...got a list",
    ),
    "batch of keys": (lambda: train(key=keys), "train: key ...got an array of keys of shape (3,)"),
    "list for hyperparameters": (
        lambda: train([1]),
        "ppo.Config: hyperparameters ...got a list",
    ),
    "hyperparameter of text": (
        lambda: train({"clip": "x"}),
        "ppo.Config: clip ...got 'x'",
    ),
    "bool for a number": (lambda: train({"clip": True}), "ppo.Config: clip ...got True"),
    "number for a name": (lambda: train({3: 1.0}), "ppo.Config: the name of a hyperparameter ...got 3"),
    "squashed integers": (
        lambda: ppo.make_train(ppo.Config(squash=True)),
        "ppo.Config: squash ...got True and Bounded((), int32, 0, 1",
    ),
    "key for a learner": (
        lambda: ppo.make_train(config).iteration(jax.random.key(0)),
        "iteration: learner ...got key<fry>[]",
    ),
    # --- policies ---
    "config of a policy": (lambda: ppo.make_policy("ppo", stack, {}), "ppo: config ...got 'ppo'"),
    "stack of a policy": (lambda: dqn.make_policy(dqn.Config(), None, {}), "dqn: env ...got None"),
    "exploration": (
        lambda: ppo.make_policy(config, stack, {}, explore="yes"),
        "ppo: explore ...got 'yes'",
    ),
    "weights": (
        lambda: sac.make_policy(sac.Config(), jaxenv.make("Pendulum-v1"), {}),
        "sac: params ...got a dict",
    ),
    # --- settings ---
    "rate that never moves": (lambda: dqn.Config(target_rate=0), "dqn.Config: target_rate ...got 0"),
    "rate of sac": (lambda: sac.Config(target_rate=0.0), "sac.Config: target_rate ...got 0.0"),
    "infinite value": (lambda: dqn.Config(initial_value=float("inf")), "dqn.Config: initial_value ...got inf"),
    "wrapper class": (
        lambda: ppo.Config(wrappers=[jaxenv.wrappers.NormalizeReward]),
        "ppo.Config: wrappers ...got (<class",
    ),
    "wrapper that is a number": (
        lambda: ppo.make_train(ppo.Config(wrappers=[3])),
        "make: wrappers[0] ...got 3",
    ),
    "choice": (lambda: dqn.Config(loss="cubed"), "dqn.Config: loss ...got 'cubed'"),
    # --- runs of several seeds, and what they have written ---
    "no folder to resume": (
        lambda: seeds.train(config, 1, resume=True),
        "train: resume ...got None",
    ),
    "text for resume": (lambda: seeds.train(config, 1, resume="yes"), "train: resume ...got 'yes'"),
    "text for sequential": (
        lambda: seeds.train(config, 1, sequential=1),
        "train: sequential ...got 1",
    ),
    "threshold": (lambda: seeds.train(config, 1, threshold="x"), "train: threshold ...got 'x'"),
    "format without a folder": (
        lambda: seeds.train(config, 1, checkpoint_format="zip"),
        "train: checkpoint_format ...got 'zip'",
    ),
    "number for a folder": (lambda: seeds.train(config, 1, folder=3), "train: folder ...got 3"),
    "file for a folder": (lambda: seeds.train(config, 1, folder=__file__), "train: folder must"),
    "no config": (lambda: seeds.can_resume("ppo"), "can_resume: config ...got 'ppo'"),
    "rows of no run": (lambda: seeds.rows({}), "rows: run ...got a dict"),
    "curve of no run": (lambda: seeds.write_curve("c.csv", 3), "write_curve: run ...got 3"),
    "picture of no run": (lambda: seeds.draw_curve("c.png", None, ""), "draw_curve: run ...got None"),
    "folder to load": (lambda: training.load(3), "load: folder ...got 3"),
    "id of a preset": (lambda: training.preset(3), "preset: env_id ...got 3"),
    "id of a baseline": (lambda: training.baseline(None), "baseline: env_id ...got None"),
    "learner of a baseline": (lambda: training.baseline("CartPole-v1", "zzz"), "baseline: algorithm ...got 'zzz'"),
}


@pytest.mark.parametrize("name", CALLS)
def test_an_argument_of_another_type_is_refused_by_name(name):
    call, start = CALLS[name]
    with pytest.raises(ValueError, match=f"^{like(start)}"):
        call()


@pytest.mark.parametrize("learner", [ppo, dqn, sac])
def test_a_wrong_hyperparameter_is_found_before_the_environment_is_reset(learner, monkeypatch):
    init = learner.make_train(learner.Config()).init
    monkeypatch.setattr(jaxenv.Environment, "reset", lambda *_: pytest.fail("the environment was reset"))
    with pytest.raises(ValueError, match=r"no hyperparameter 'learning_rat'.*'learning_rate'"):
        init(jax.random.key(0), {"learning_rat": 1e-3})


def test_a_subclass_that_changes_a_default_keeps_the_range():
    with pytest.raises(ValueError, match=r"sac\.Config: num_envs .*got 0"):
        sac.Config(num_envs=0)  # declared by RunConfig

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Careful(ppo.Config):
        clip: float = 0.1

    assert Careful().hyperparameters == ppo.Config().hyperparameters | {"clip": 0.1}
    with pytest.raises(ValueError, match=r"Careful: clip .*got 0"):
        Careful(clip=0)


def test_hyperparameters_may_be_traced():
    clip = jax.jit(lambda clip: config.arrays({"clip": clip})["clip"])(jnp.float32(0.25))
    assert float(clip) == 0.25
