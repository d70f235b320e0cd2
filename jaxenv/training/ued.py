"""Unsupervised environment design: PPO on levels that a curriculum chooses, as one compiled function of a key.

A level is what distinguishes the episodes of a task, and every lane plays one level for a whole update. The curricula:

- ``"dr"``: domain randomisation. Every episode starts in a new level of the task: PPO alone.
- ``"plr"``: prioritised level replay (Jiang et al., 2021, arXiv:2010.03934). An update plays new levels, or levels of a
  buffer in which those score highest that promise the most to learn.
- ``"robust_plr"``: the same, but new levels are scored, not learned from (Jiang et al., 2021, arXiv:2110.02439).
- ``"accel"``: robust PLR that follows each replay by an update on mutations of the levels that were replayed
  (Parker-Holder et al., 2022, arXiv:2203.01302).
- ``"sfl"``: sampling for learnability (Rutherford et al., 2024, arXiv:2408.15099). At intervals many new levels are
  played without learning, and those are kept that the policy solves in about half of its episodes. A fraction of the
  lanes plays levels among these, all alike; the others play new ones.
- ``"paired"``: an adversary builds the levels for two students, and its reward is their regret (Dennis et al., 2020,
  arXiv:2012.02096). It has no buffer; paired.py is its file.

The defaults come from jaxued's ``maze_plr.py`` (Coward et al., 2024, arXiv:2403.13091): its network, an LSTM, and
its settings for mazes. Unlike there, the learning rate falls to 0 by the number of all updates, the buffer keeps the
highest scores, and new levels that are only scored cost no pass over the loss.
"""

import dataclasses
import warnings
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

import jaxenv
from jaxenv import data, tree
from jaxenv.core import Environment, TimeStep
from jaxenv.core.levels import refuse_given_levels
from jaxenv.data import level_scores
from jaxenv.training import evaluation, paired, ppo
from jaxenv.training.evaluation import Curve as Curve
from jaxenv.training.lanes import DeviceLanes, Train
from jaxenv.training.ppo import make_policy as make_policy

NEW, REPLAYED, MUTATED = range(3)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(ppo.Config):
    """The settings of a run; `ppo.Config` and `RunConfig` have the others.

    Attributes:
        env_options: as in `RunConfig`; by default 25 walls and scaled observations for AMaze, nothing for other ids.
        curriculum: ``"dr"``, ``"plr"``, ``"robust_plr"``, ``"accel"``, ``"sfl"`` or ``"paired"``; the module describes
            them. ``"paired"`` reads ``num_editor_steps`` of the fields below, and ``"dr"`` none.
        score: how much a level promises: ``"max_monte_carlo"`` or ``"positive_value_loss"``, of `data.level_scores`;
            not read by ``"sfl"``, as the last four.
        capacity: levels in the buffer.
        replay_probability: fraction of updates that replay levels, once the buffer is filled; with ``"sfl"`` fraction
            of the lanes, which is rounded down.
        num_edits: edits of each level that ``"accel"`` mutates, calls of `jaxenv.mutate_level`.
        num_candidates: new levels that ``"sfl"`` plays for ``num_steps`` steps each; a multiple of ``num_envs``.
        refresh_interval: number of updates after which ``"sfl"`` plays new candidates.
        num_editor_steps: steps in which the adversary of ``"paired"`` builds a level.
        fill: fraction of the buffer that must be filled before levels are replayed.
        prioritization: ``"rank"`` or ``"proportional"``, as in `LevelBuffer`.
        temperature: as in `LevelBuffer`.
        staleness: as in `LevelBuffer`.
    """

    env_id: str = "AMaze-13x13-v0"
    env_options: Any = None
    total_steps: int = 30_000 * 8192
    num_envs: int = 32
    num_steps: int = 256
    num_epochs: int = 5
    num_minibatches: int = 1
    learning_rate: float = 1e-4
    gamma: float = 0.995
    lambda_: float = 0.98
    entropy_cost: float = 1e-3
    clip_value: bool = True
    hidden: tuple[int, ...] = (32,)
    torso: Literal["auto", "mlp", "cnn"] = "cnn"
    activation: Literal["tanh", "relu"] = "relu"
    recurrent: int = 256
    cell: str = "lstm"
    eval_explore: bool = True
    curriculum: Literal["dr", "plr", "robust_plr", "accel", "sfl", "paired"] = "robust_plr"
    score: Literal["max_monte_carlo", "positive_value_loss"] = "max_monte_carlo"
    capacity: int = tree.static(default=4000, low=1)
    replay_probability: float = tree.static(default=0.8, low=0, high=1)
    num_edits: int = tree.static(default=5, low=1)
    num_candidates: int = tree.static(default=4096, low=1)
    refresh_interval: int = tree.static(default=50, low=1)
    num_editor_steps: int = tree.static(default=50, low=1)
    fill: float = tree.static(default=0.5, above=0, high=1)
    prioritization: Literal["rank", "proportional"] = "rank"
    temperature: float = tree.static(default=0.3, above=0)
    staleness: float = tree.static(default=0.3, low=0, high=1)

    def __post_init__(self) -> None:
        if self.env_options is None:
            of_maze = {"num_walls": 25, "normalize_obs": True} if str(self.env_id).startswith("AMaze") else {}
            object.__setattr__(self, "env_options", of_maze)
        super().__post_init__()

    @property
    def rows_per_update(self) -> int:
        return super().rows_per_update * (2 if self.curriculum == "paired" else 1)  # rows of both students

    def check(self) -> None:
        super().check()
        if self.curriculum == "sfl" and self.num_candidates % self.num_envs:
            rule = f"num_candidates must be a multiple of num_envs = {self.num_envs}"
            raise ValueError(f"{self.owner}: {rule}, got {self.num_candidates}")


@tree.struct
class Learner(ppo.Learner):
    """The complete state of a run: saved and restored, it continues bit for bit. `ppo.Learner` has the other fields.

    With ``"dr"`` the state is a `ppo.Learner`, with ``"paired"`` a `paired.Learner`.
    """

    buffer: data.LevelBufferState  # the levels, a `LevelBufferState` whose notes are the highest returns so far
    levels: Any  # the levels of the last update, leaves [B, ...]
    source: jax.Array  # int32[], where they came from: NEW, REPLAYED or MUTATED


@tree.struct
class Losses(ppo.Losses):
    """The means of `ppo.Losses` over the updates that learn, and the curriculum since the previous evaluation."""

    buffer_fill: jax.Array  # fraction of the buffer that is filled
    score_mean: jax.Array  # mean score of the levels in the buffer; 0 without one
    score_max: jax.Array  # their highest score; 0 without one
    replayed: jax.Array  # fraction of the played levels that came from the buffer
    replayed_return: jax.Array  # mean return of the complete episodes in them, over levels; 0 where none was played


def make_train(
    config: Config, env: Environment | None = None, eval_env: Environment | None = None, mesh: Mesh | None = None
) -> Train[Any]:
    """Makes a run as one function of a key, ``train(key)``. `Train` describes the function and the arguments.

    Evaluations play the levels of ``eval_env``: held-out ones where it is ``env.with_level(levels)``. One buffer serves
    all lanes, so ``mesh`` must be ``None`` unless the curriculum is ``"dr"``.
    """
    env, eval_env = evaluation.environments(Config, config, env, eval_env)
    owner = f"{config.owner}: curriculum {config.curriculum!r}"
    refuse_given_levels(owner, env, "the curriculum chooses the levels, give held-out ones to eval_env")
    if config.curriculum == "dr":
        return ppo.make_train(config, env, eval_env, mesh)
    if mesh is not None:
        raise ValueError(f"ued: mesh must be None for the curriculum {config.curriculum!r}, got {mesh}")
    _check_levels(config, env)
    _warn_of_long_episodes(owner, config, env)
    if config.curriculum == "paired":
        return paired.make_train(config, _builder(config), env, eval_env)
    lanes = DeviceLanes(config, mesh)
    student = ppo.make_stages(config, env, lanes)
    buffer = data.LevelBuffer(config.capacity, config.prioritization, config.temperature, config.staleness)
    if config.curriculum == "sfl":
        buffer = data.LevelBuffer(config.capacity, temperature=1e6, staleness=0.0)  # all levels alike
    no_return = np.full(env.num_envs, -np.inf, np.float32)

    def init(key: jax.Array, hyperparameters: dict[str, jax.Array]) -> Learner:
        learner = student.init(key, hyperparameters)
        levels = jaxenv.sample_level(env, jax.random.fold_in(learner.key, config.num_updates))
        empty = buffer.init(levels, no_return)
        return Learner(**vars(learner), buffer=empty, levels=levels, source=jnp.int32(NEW))

    def update(settings: Config, learner: Learner) -> tuple[Learner, tuple[ppo.Losses, jax.Array, Any]]:
        if config.curriculum == "sfl":
            learner, place, max_return, is_replayed = choose_learnable(learner)
        else:
            learner, place, max_return, is_replayed = choose(learner)
        learner, played = restart(learner)
        collected, rows, last_observation = student.collect(learner, played)
        batch, estimates = student.advantages(settings, learner.memory, collected, rows, last_observation)
        returns, valid = level_scores.mean_return(rows.timestep, collected.timestep)
        valid &= is_replayed
        sums = (jnp.mean(is_replayed), jnp.sum(jnp.where(valid, returns, 0)), jnp.sum(valid))
        learner = collected
        if config.curriculum != "sfl":
            learner = score(collected, rows.timestep, estimates, place, max_return)
        learns = (learner.source == REPLAYED) | (config.curriculum == "plr")
        learner, losses = jax.lax.cond(learns, lambda x: student.optimise(settings, x, batch), unchanged, learner)
        return learner, (losses, learns, sums)

    def summary(learner: Learner, of_updates: Any) -> Losses:
        losses, learns, (replayed, returns, count) = of_updates
        number = jnp.maximum(jnp.sum(learns), 1).astype(jnp.float32)
        losses, state = jax.tree.map(lambda x: x.sum() / number, losses), learner.buffer
        size = state.size.astype(jnp.float32)
        scores = jnp.where(jnp.isfinite(state.scores), state.scores, 0)
        return Losses(
            **vars(losses),
            buffer_fill=size / np.float32(config.capacity),
            score_mean=jnp.sum(scores) / jnp.maximum(size, 1),
            score_max=jnp.where(state.size > 0, jnp.max(state.scores), 0),
            replayed=jnp.mean(replayed),
            replayed_return=jnp.sum(returns) / jnp.maximum(jnp.sum(count), 1).astype(jnp.float32),
        )

    # === 1. Choose the levels of an update ============================================================================

    def choose(learner: Learner) -> tuple[Learner, jax.Array, jax.Array, jax.Array]:
        """Returns the learner with levels, their places in the buffer and best returns, and which come from there.

        The places of other levels are the numbers of their lanes.
        """
        key, level_key = jax.random.split(jax.random.fold_in(jax.random.fold_in(learner.key, learner.update), 1))
        is_filled = learner.buffer.size >= np.int32(np.ceil(config.fill * config.capacity))
        replays = is_filled & (jax.random.uniform(key) < config.replay_probability)
        source = jnp.where(replays, np.int32(REPLAYED), np.int32(NEW))
        if config.curriculum == "accel":
            source = jnp.where(learner.source == REPLAYED, np.int32(MUTATED), source)

        def replay() -> Any:
            state, sample = buffer.sample(learner.buffer, level_key, env.num_envs)
            return state, sample.levels, sample.place, sample.notes

        def others(make_levels: Any) -> Any:
            numbers = jnp.arange(env.num_envs, dtype=jnp.int32)
            return lambda: (learner.buffer, make_levels(), numbers, jnp.asarray(no_return))

        branches = [others(lambda: jaxenv.sample_level(env, level_key)), replay]
        if config.curriculum == "accel":
            branches.append(others(lambda: mutated(learner.levels, level_key)))
        state, levels, place, max_return = jax.lax.switch(source, branches)
        learner = dataclasses.replace(learner, buffer=state, levels=levels, source=source)
        return learner, place, max_return, jnp.full(env.num_envs, source == REPLAYED)

    def mutated(levels: Any, key: jax.Array) -> Any:
        keys = jax.random.split(key, config.num_edits)
        return jax.lax.scan(lambda levels, key: (jaxenv.mutate_level(env, levels, key), None), levels, keys)[0]

    def choose_learnable(learner: Learner) -> tuple[Learner, None, None, jax.Array]:
        """As `choose`, after new candidates have been played if it is time."""
        keys = jax.random.split(jax.random.fold_in(jax.random.fold_in(learner.key, learner.update), 1), 3)

        def play(state: data.LevelBufferState, key: jax.Array) -> tuple[data.LevelBufferState, None]:
            candidates = dataclasses.replace(learner, levels=jaxenv.sample_level(env, key))
            played, rows, _ = student.collect(*restart(candidates))
            scores, valid = level_scores.learnability(rows.timestep, played.timestep)
            return buffer.insert(state, candidates.levels, scores, valid, no_return), None

        def refresh() -> data.LevelBufferState:
            rounds = jax.random.split(keys[0], config.num_candidates // config.num_envs)
            return jax.lax.scan(play, buffer.init(learner.levels, no_return), rounds)[0]

        is_due = learner.update % np.int32(config.refresh_interval) == 0
        state, sample = buffer.sample(jax.lax.cond(is_due, refresh, lambda: learner.buffer), keys[1], env.num_envs)
        is_kept = (jnp.arange(env.num_envs) < int(config.replay_probability * env.num_envs)) & (state.size > 0)
        levels = tree.where(is_kept, sample.levels, jaxenv.sample_level(env, keys[2]))
        learner = dataclasses.replace(learner, buffer=state, levels=levels, source=jnp.int32(REPLAYED))
        return learner, None, None, is_kept

    # === 2. Restart every lane in its level; its next episodes start there, too =======================================

    def restart(learner: Learner) -> tuple[Learner, Environment]:
        played = env.with_level(learner.levels)
        return paired.restart(learner, played), played

    # === 3. Score the levels ==========================================================================================

    def score(
        learner: Learner, rows: TimeStep, estimates: tuple[jax.Array, jax.Array], place: Any, max_return: Any
    ) -> Learner:
        (values, advantages), last = estimates, learner.timestep
        max_return = jnp.maximum(max_return, level_scores.max_return(rows, last))
        is_same = place[:, None] == place[None]  # several lanes may replay one level
        max_return = jnp.max(jnp.where(is_same, max_return[None], -jnp.inf), axis=1)
        if config.score == "max_monte_carlo":
            scores, valid = level_scores.max_monte_carlo(rows, last, values, max_return)
        else:
            scores, valid = level_scores.positive_value_loss(rows, last, advantages)
        state = jax.lax.cond(
            learner.source == REPLAYED,
            lambda: buffer.update(learner.buffer, place, scores, valid, max_return),
            lambda: buffer.insert(learner.buffer, learner.levels, scores, valid, max_return),
        )
        return dataclasses.replace(learner, buffer=state)

    def unchanged(learner: Learner) -> tuple[Learner, ppo.Losses]:
        return learner, ppo.Losses(*[jnp.zeros((), jnp.float32)] * 5)

    return evaluation.train(lanes, env, eval_env, Learner, make_policy, init, update, summary)


def _builder(config: Config) -> Config:
    """Returns the settings of the adversary of ``"paired"``: plain PPO, with as many updates."""
    return dataclasses.replace(
        config,
        curriculum="dr",
        num_steps=config.num_editor_steps,
        total_steps=config.num_updates * config.num_envs * config.num_editor_steps,
        torso="auto",
        squash=False,
    )


def _warn_of_long_episodes(owner: str, config: Config, env: Environment) -> None:
    """Warns if the time limit allows an episode that is longer than an update, which scores no level."""
    limit = evaluation.longest_episode(env)
    if limit is None or limit <= config.num_steps:
        return
    effects = {"plr": "no level is replayed", "sfl": "no candidate is kept", "paired": "the adversary is not paid"}
    effect = effects.get(config.curriculum, "nothing is learned")
    rule = f"num_steps must be at least {limit}, the time limit of {env}, got {config.num_steps}"
    reason = f"a level is scored by episodes that end within an update, and where none does, {effect}"
    warnings.warn(f"{owner}: {rule}: {reason}", stacklevel=3)


def _check_levels(config: Config, env: Environment) -> None:
    """Raises a ``ValueError`` unless ``env`` has the levels that the curriculum asks for; nothing is computed."""
    owner = f"{config.owner}: curriculum {config.curriculum!r}"
    if env.lanes_per_game > 1:
        rule = "a level must belong to one lane, which its returns score"
        raise ValueError(f"{owner}: {rule}, {env.lanes_per_game} lanes of {env} play one: use curriculum 'dr'")

    def make(key: jax.Array) -> Any:
        if config.curriculum == "paired":
            state, _ = paired.editor_of(env, config.num_editor_steps).reset(key)
            return env.reset(key, level=state.task.level)
        levels = jaxenv.sample_level(env, key)
        return jaxenv.mutate_level(env, levels, key) if config.curriculum == "accel" else levels

    try:
        jax.eval_shape(make, jax.random.key(0))
    except ValueError as fault:
        raise ValueError(f"{owner}: {fault}") from None
