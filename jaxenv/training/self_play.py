"""Self-play: PPO against a league of its past selves, as one compiled function of a key.

The learner plays one side of a game of turns, drawn in each episode; `jaxenv.wrappers.Opponent` plays the other with
the weights of a league. Member 0 is the learner itself, as it was before the update. The others are snapshots, each
kept for a while: against its present self alone a learner can go round in circles (Balduzzi et al., 2019,
arXiv:1901.08106). Everything else is `ppo`. Evaluations play against random moves; `cross_play` lets policies play each
other, and `ratings` turns its scores into Elo ratings.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

import jaxenv
from jaxenv import random, specs, tree
from jaxenv._util.checks import Range, check_array, check_arrays, check_integer
from jaxenv.core import Environment, TimeStep, Wrapper, layers
from jaxenv.training import distributions, evaluation, ppo
from jaxenv.training.config import check_config
from jaxenv.training.evaluation import Curve as Curve
from jaxenv.training.lanes import DeviceLanes, Train
from jaxenv.training.ppo import Losses as Losses
from jaxenv.training.ppo import make_policy as make_policy
from jaxenv.tree._structure import type_mismatch
from jaxenv.wrappers import Opponent


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(ppo.Config):
    """The settings of a run; `ppo.Config` and `RunConfig` have the others. ``env_id`` names a game of turns.

    Advantages are not normalised: among equal players who know how their game ends they are noise, which would be
    scaled up until the policy plays one line only.

    Attributes:
        league: number of opponents, the learner itself and its snapshots. Free places hold the weights of the start.
        snapshot_interval: number of updates between two snapshots. The n-th replaces the oldest one, in place
            ``1 + n % (league - 1)``.
    """

    env_id: str = "ConnectFour-v0"
    total_steps: int = 20_000_000
    num_envs: int = 256
    num_steps: int = 32
    num_epochs: int = 2
    num_minibatches: int = 4
    learning_rate: float = 1e-3
    gamma: float = 1.0
    lambda_: float = 0.95
    entropy_cost: float = 0.05
    normalize_advantage: bool = False
    hidden: tuple[int, ...] = (128, 128)
    num_evaluations: int = 20
    num_eval_episodes: int = 256
    eval_explore: bool = True
    league: int = tree.static(default=8, low=1)
    snapshot_interval: int = tree.static(default=20, low=1)

    def check(self) -> None:
        super().check()
        if self.recurrent or self.normalize_observation:
            name = "recurrent" if self.recurrent else "normalize_observation"
            got = getattr(self, name)
            raise ValueError(f"{self.owner}: {name} must be off, an opponent has weights only, got {got}")

    def make_env(self, num_envs: int | None = None, mode: str = "train", **options: Any) -> Environment:
        """Makes the config's stack with the league as `Opponent`, or with random moves for ``mode="eval"``."""

        def with_opponent(env: Environment) -> Environment:
            if not env.turns:
                rule = "env_id must name a game of two agents that move in turns, such as ConnectFour-v0"
                raise ValueError(f"{self.owner}: {rule}, got {self.env_id!r}")
            return Opponent(env, side="drawn") if mode == "eval" else Opponent(env, **league(self, env))

        return super().make_env(num_envs, mode, **{"wrappers": (*self.wrappers, with_opponent), **options})


def league(config: Config, game: Environment) -> dict[str, Any]:
    """Returns the arguments of `Opponent` for a league of untrained networks."""
    policy, initial = opponent(config, game)
    weights = initial(jax.random.key(0))
    return {"policy": policy, "side": "drawn", "weights": repeated(weights, config.league), "league": config.league}


def opponent(config: Config, game: Environment) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Returns the exploring policy ``(timestep, stream, weights)`` of a network, and its initial weights for a key."""
    pi, network, read, legal = ppo.model(config, Opponent(game))
    heads: Callable[..., Any] = network.apply

    def policy(timestep: TimeStep, stream: random.Stream, weights: Any) -> Any:
        inputs, _, _ = heads(weights, read(timestep.observation))
        return pi.to_action(pi.sample(distributions.masked(inputs, legal(timestep)), stream))

    return policy, lambda key: network.init(key, read(specs.zeros(game.observation_spec(), (1,))))


def repeated(weights: Any, count: int) -> Any:
    """Returns ``count`` copies of the weights, arrays ``[count, ...]``."""
    return jax.tree.map(lambda x: jnp.broadcast_to(x, (count, *x.shape)), weights)


def against(env: Environment, weights: Any) -> Environment:
    """Returns the stack whose `Opponent` plays with these weights."""
    if isinstance(env, Opponent):
        return env.with_weights(weights)
    assert isinstance(env, Wrapper)
    return tree.rebuild(env, env=against(env.env, weights))


@tree.struct
class Learner(ppo.Learner):
    """The complete state of a run: saved and restored, it continues bit for bit. `ppo.Learner` has the other fields."""

    league: Any  # the weights of the opponents, arrays [league, ...]


def make_train(
    config: Config, env: Environment | None = None, eval_env: Environment | None = None, mesh: Mesh | None = None
) -> Train[Any]:
    """Makes a run as one function of a key, ``train(key)``. `Train` describes the function and the arguments.

    A stack has the league as `Opponent`, as ``config.make_env`` makes it.
    """
    env, eval_env = evaluation.environments(Config, config, env, eval_env)
    game = next((x.env for x in layers(env) if isinstance(x, Opponent) and x.league == config.league), None)
    if game is None:
        rule = f"env must have an Opponent with a league of {config.league}, as config.make_env makes it"
        raise ValueError(f"self_play: {rule}, got {env!r}")
    lanes = DeviceLanes(config, mesh)
    player = ppo.make_stages(config, env, lanes)

    def init(key: jax.Array, hyperparameters: dict[str, jax.Array]) -> Learner:
        # Untrained weights as data: the compiler would compute the opponents' first moves itself, for minutes.
        start = against(env, jax.lax.optimization_barrier(league(config, game)["weights"]))
        learner = ppo.make_stages(config, start, lanes).init(key, hyperparameters)
        return Learner(**vars(learner), league=repeated(learner.params, config.league))

    def update(settings: Config, learner: Learner) -> tuple[Learner, Losses]:
        collected, rows, last_observation = player.collect(learner, against(env, learner.league))
        batch, _ = player.advantages(settings, learner.memory, collected, rows, last_observation)
        learner, losses = player.optimise(settings, collected, batch)
        return dataclasses.replace(learner, league=with_member(learner)), losses

    def with_member(learner: Learner) -> Any:
        """Puts the new weights at place 0 of the league, and at intervals in the place of the oldest snapshot."""
        number = learner.update // np.int32(config.snapshot_interval)
        place = 1 + number % np.int32(max(config.league - 1, 1))
        is_due = learner.update % np.int32(config.snapshot_interval) == 0
        slots = jnp.arange(config.league, dtype=jnp.int32)
        renewed = (slots == 0) | (is_due & (slots == place))
        return tree.where(renewed, repeated(learner.params, config.league), learner.league)

    return evaluation.train(lanes, env, eval_env, Learner, make_policy, init, update)


def cross_play(config: Config, weights: Any, key: jax.Array, num_games: int = 256) -> jax.Array:
    """Lets N players play each other: float32 ``[N, N]``, the mean reward of player i (row) against player j.

    ``weights`` holds the weights of the players, arrays ``[N, ...]``, such as ``learner.league``, and ``config`` the
    settings with which they were trained. Each pair plays ``num_games``. Sides are drawn, so the matrix is
    antisymmetric up to chance if rewards of a game sum to 0.
    """
    check_config(config, Config)
    check_integer("cross_play", "num_games", num_games, 1)
    env = jaxenv.make(config.env_id, num_games, **dict(config.env_options), wrappers=config.wrappers, autoreset=None)
    policy, initial = opponent(config, env)
    random.check_one("cross_play", key)
    shapes = jax.eval_shape(initial, key)
    check_arrays("cross_play", "weights", weights)
    weights = jax.tree.map(jnp.asarray, weights)
    count = next((len(x) for x in jax.tree.leaves(weights) if x.ndim), 0)
    expected = jax.tree.map(lambda x: jax.ShapeDtypeStruct((max(count, 1), *x.shape), x.dtype), shapes)
    if (fault := type_mismatch(expected, weights, "weights")) is not None:
        raise ValueError(f"cross_play: {fault}, the weights of N players for the networks of this config")

    def score(pair: jax.Array) -> jax.Array:
        mine, theirs = (jax.tree.map(lambda x, i=i: x[i], weights) for i in pair)
        stack = jaxenv.wrappers.AutoReset(Opponent(env, policy, "drawn", theirs))
        played = jaxenv.evaluate(stack, lambda timestep, stream: policy(timestep, stream, mine), key, num_games)
        return played.returns.mean()

    pairs = np.stack(np.meshgrid(np.arange(count), np.arange(count), indexing="ij"), axis=-1).reshape(-1, 2)
    return jax.jit(lambda pairs: jax.lax.map(score, pairs))(jnp.asarray(pairs)).reshape(count, count)


def ratings(scores: Any) -> np.ndarray:
    """Returns Elo ratings ``[N]`` with mean 0 from mean scores in [-1, 1], ``[N, N]`` as of `cross_play`.

    They maximise the likelihood of the Bradley-Terry model, in which a difference of 400 is odds of ten to one (Hunter,
    2004, "MM algorithms for generalized Bradley-Terry models"). A fiftieth of a drawn game against a
    player of rating 0 keeps them finite.
    """
    check_array("ratings", "scores", scores)
    scores = np.asarray(scores, np.float64)
    if scores.ndim != 2 or len(scores) != scores.shape[1]:
        raise ValueError(f"ratings: scores must be [N, N], got {list(scores.shape)}")
    Range(-1, 1).check("ratings", "scores", scores, rank=2)
    wins = (scores + 1) / 2
    np.fill_diagonal(wins, 0.0)
    count = len(wins)
    strength = np.ones(count)
    for _ in range(1000):
        meetings = (1 - np.eye(count)) / (strength[:, None] + strength[None])
        strength = (wins.sum(axis=1) + 0.01) / (meetings.sum(axis=1) + 0.02 / (strength + 1))
    elo = 400 * np.log10(strength)
    return elo - elo.mean()
