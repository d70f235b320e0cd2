"""PAIRED: an adversary builds the levels in which two students play, and is paid by how much one could still learn.

Dennis et al. (2020), arXiv:2012.02096, as jaxued's ``maze_paired.py``. In an update the adversary builds a level for
every lane, and protagonist and antagonist play it. The adversary's reward, on the last row of its episode, is the
regret: the highest return of the antagonist minus the mean return of the protagonist. All three learn by PPO, with the
same settings. The adversary's environment is the task's own editor, ``Task.editor``.
"""

import dataclasses
from typing import Any, TypeVar

import jax
import jax.numpy as jnp

import jaxenv
from jaxenv import tree
from jaxenv.core import Environment, TimeStep
from jaxenv.data import level_scores
from jaxenv.training import evaluation, ppo
from jaxenv.training.lanes import DeviceLanes, Train

L = TypeVar("L", bound=ppo.Learner)
Rows = tuple[TimeStep, TimeStep]  # the rows [T, B] of an update and the row after them


@tree.struct
class Learner(ppo.Learner):
    """The complete state of a run. `ppo.Learner` has the protagonist's."""

    antagonist: ppo.Learner  # the other student
    adversary: ppo.Learner  # the learner that builds levels
    levels: Any  # the levels of the last update, leaves [B, ...]
    regret: jax.Array  # float32[B], the adversary's reward for each of them


@tree.struct
class Losses(ppo.Losses):
    """The protagonist's `ppo.Losses`, and means over the lanes."""

    regret: jax.Array  # the adversary's reward
    protagonist_return: jax.Array  # the protagonist's mean return
    antagonist_return: jax.Array  # the antagonist's highest return
    adversary_entropy: jax.Array  # the entropy of the adversary's policy, in nats


def editor_of(env: Environment, num_steps: int) -> jaxenv.Task:
    """Returns the editor of the task in ``env``; raises a ``ValueError`` if it has no editor."""
    task = env.unwrapped
    if not isinstance(task, jaxenv.Task):
        raise ValueError(f"{task} is not a task and has no editor")
    return task.editor(num_steps)


def make_train(config: ppo.Config, builder: ppo.Config, env: Environment, eval_env: Environment) -> Train[Learner]:
    """Makes PAIRED as one function of a key, given the settings of the students and of the adversary.

    The ``make_train`` of `ued` makes the second, and has checked the arguments.
    """
    editor, lanes = editor_of(env, builder.num_steps), DeviceLanes(config, None)
    student = ppo.make_stages(config, env, lanes)
    adversary = ppo.make_stages(builder, editor, DeviceLanes(builder, None))

    def init(key: jax.Array, hyperparameters: dict[str, jax.Array]) -> Learner:
        keys = jax.random.split(key, 3)
        protagonist, antagonist = (student.init(key, hyperparameters) for key in keys[:2])
        designer = adversary.init(keys[2], hyperparameters)
        levels, regret = designer.env_state.task.level, jnp.zeros(env.num_envs, jnp.float32)
        own = vars(protagonist)
        return Learner(**own, antagonist=antagonist, adversary=designer, levels=levels, regret=regret)

    def update(settings: ppo.Config, learner: Learner) -> tuple[Learner, Losses]:
        # 1. The adversary builds a level for every lane.
        start = restart(learner.adversary, editor)
        built, steps, last_observation = adversary.collect(start, editor)
        levels = built.env_state.task.level
        # 2. Both students play and learn.
        played = env.with_level(levels)
        own, own_rows, losses = study(settings, learner, played)
        antagonist, its_rows = study(settings, learner.antagonist, played)[:2]
        # 3. The adversary learns from the regret.
        best, mean, regret = regret_of(own_rows, its_rows)
        paid = dataclasses.replace(built, timestep=dataclasses.replace(built.timestep, reward=regret))
        its_settings = tree.rebuild(builder, **learner.hyperparameters)
        batch, _ = adversary.advantages(its_settings, start.memory, paid, steps, last_observation)
        designer, its_losses = adversary.optimise(its_settings, built, batch)
        antagonist, designer = (tree.rebuild(x, update=x.update + 1) for x in (antagonist, designer))
        learner = dataclasses.replace(own, antagonist=antagonist, adversary=designer, levels=levels, regret=regret)
        means = {"regret": regret, "protagonist_return": mean, "antagonist_return": best}
        means = {name: jnp.mean(x) for name, x in means.items()}
        return learner, Losses(**vars(losses), **means, adversary_entropy=its_losses.entropy)

    def study(settings: ppo.Config, learner: L, played: Environment) -> tuple[L, Rows, ppo.Losses]:
        """Plays the levels of an update and learns from them."""
        start = restart(learner, played)
        collected, rows, last_observation = student.collect(start, played)
        batch, _ = student.advantages(settings, start.memory, collected, rows, last_observation)
        after, losses = student.optimise(settings, collected, batch)
        return after, (rows.timestep, collected.timestep), losses

    return evaluation.train(lanes, env, eval_env, Learner, ppo.make_policy, init, update)


def regret_of(protagonist: Rows, antagonist: Rows) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Returns the antagonist's highest return, the protagonist's mean return and the regret, float32 ``[B]`` each.

    All are 0 in lanes in which one of the two completed no episode.
    """
    best = level_scores.max_return(*antagonist)
    mean, valid = level_scores.mean_return(*protagonist)
    valid &= jnp.isfinite(best)
    best, mean = jnp.where(valid, best, 0), jnp.where(valid, mean, 0)
    return best, mean, best - mean


def restart(learner: L, env: Environment) -> L:
    """Returns the learner at the start of a new episode in every lane."""
    every_lane = jnp.ones(env.num_envs, bool)
    env_state, timestep = jaxenv.reset_where(env, learner.env_state, learner.timestep, every_lane)
    return dataclasses.replace(learner, env_state=env_state, timestep=timestep)
