"""JaxMARL's environments as batched games of several agents: ``jaxenv.make("jaxmarl:overcooked", num_envs=8)``.

JaxMARL has a dict entry for each agent; here the agents are an axis, ``[B, A]``. It has one flag for all ends of an
episode, and restarts inside of its step.
"""

import contextlib
import copy
import sys
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import specs, tree
from jaxenv._util.checks import INT32_MAX, check_integer
from jaxenv.core.environment import Environment
from jaxenv.suites._options import arguments_of, check_known, library, reporting
from jaxenv.suites._task import Single, Stepped, functions_of, load_task
from jaxenv.tree import Tree

# The classes of the ids that run here. The others need arguments that are no options (LearnedPolicyEnemySMAX), another
# package (JaxRobotarium, MABrax) or have another interface (storm, facmac).
_CLASSES = {
    "HeuristicEnemySMAX": "HeuristicEnemySMAX",
    "MPE_simple_adversary_v3": "SimpleAdversaryMPE",
    "MPE_simple_crypto_v3": "SimpleCryptoMPE",
    "MPE_simple_push_v3": "SimplePushMPE",
    "MPE_simple_reference_v3": "SimpleReferenceMPE",
    "MPE_simple_speaker_listener_v4": "SimpleSpeakerListenerMPE",
    "MPE_simple_spread_v3": "SimpleSpreadMPE",
    "MPE_simple_tag_v3": "SimpleTagMPE",
    "MPE_simple_v3": "SimpleMPE",
    "MPE_simple_world_comm_v3": "SimpleWorldCommMPE",
    "SMAX": "SMAX",
    "coin_game": "CoinGame",
    "hanabi": "Hanabi",
    "jaxnav": "JaxNav",
    "overcooked": "Overcooked",
    "overcooked_v2": "OvercookedV2",
    "switch_riddle": "SwitchRiddle",
}
# Tasks that end by themselves. All others end at their horizon only, which is a time limit.
_TERMINATING = ("HeuristicEnemySMAX", "SMAX", "hanabi", "jaxnav", "switch_riddle")
# Tasks that compare their limit with the number of the step before: episodes have one step more.
_LATE = ("HeuristicEnemySMAX", "MPE_", "SMAX")


def ids() -> list[str]:
    """Returns the ids that ``load`` accepts."""
    _jaxmarl()
    return sorted(_CLASSES)


def load(name: str, /, num_envs: int | None = None, **kwargs: Any) -> Environment:
    """Builds an environment of JaxMARL; keywords are also arguments of its constructor, such as ``num_agents``.

    A ``layout`` of overcooked and a ``scenario`` of SMAX are given by name. ``max_steps`` is the default time limit.
    """
    constructor = arguments_of(_class(name))[0]
    if name == "HeuristicEnemySMAX":  # this one and MPE hand arguments on
        constructor = {**arguments_of(_class("SMAX"))[0], **constructor}
    elif name.startswith("MPE_"):
        constructor["max_steps"] = 25
    return load_task("jaxmarl", name, num_envs, constructor, kwargs)


@tree.struct
class Game:
    """JaxMARL's state, and the entries of ``env_info`` that describe it."""

    state: Any
    info: dict[str, Any]


class JaxmarlSingle(Single):
    """An environment of JaxMARL; `single` builds each configuration once.

    For tasks that end by themselves the time limit of ``env`` is out of reach; ``timed`` has it, for jaxnav.
    """

    suite = "jaxmarl"

    def build(self, id: str, arguments: dict[str, Any]) -> None:
        if (steps := arguments.get("max_steps")) is not None:
            check_integer(self.owner, "max_steps", steps, 1)
        with reporting(self.owner, arguments), warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # overcooked: that there is overcooked_v2
            self.env = _class(id)(**{name: _named(id, name, value) for name, value in arguments.items()})
        self.timed = copy.copy(self.env) if id == "jaxnav" else self.env
        if id.startswith("MPE_"):
            self.opt_outs = {"gradients_sound": "the distance of an entity to itself is a square root at 0"}
        self.terminates = id in _TERMINATING
        limited = getattr(self.env, "_env", self.env)  # SMAX inside of HeuristicEnemySMAX
        if id == "coin_game":
            self.limit = self.env.num_inner_steps * self.env.num_outer_steps
        elif (limit := getattr(limited, "max_steps", None)) is not None:
            self.limit = int(limit) + id.startswith(_LATE)
            if self.terminates:
                limited.max_steps = INT32_MAX
        self.agents = tuple(self.env.agents)
        if len(self.agents) > 1:
            self.agent_names = self.agents

    def reset(self, values: Mapping[str, Any], key: jax.Array) -> tuple[Tree, Tree]:
        observations, state = self.env.reset(key)
        return Game(state, self._state_info(observations, state)), self._stacked(observations)

    def step(self, values: Mapping[str, Any], key: jax.Array, state: Tree, action: Tree) -> Stepped:
        observations, inner, rewards, dones, infos = self.env.step_env(key, state.state, self._actions(action))
        info = {name: self._of_each(x) for name, x in infos.items()}
        if self.terminates and len(self.agents) > 1:
            info["agent_done"] = self._stacked(dones)
        terminated = jnp.logical_and(dones["__all__"], self.terminates)
        game = Game(inner, self._state_info(observations, inner))
        return game, self._stacked(observations), self._stacked(rewards), terminated, info

    def state_info(self, state: Tree, observation: Tree) -> dict[str, Tree]:
        return dict(state.info)

    def declared_action(self) -> Tree:
        spaces = [self.env.action_space(agent) for agent in self.agents]
        if self._discrete:  # the mask leaves out what an agent with fewer actions than others has not
            shape = (len(spaces),) if len(spaces) > 1 else ()
            return specs.Bounded(shape, np.int32, 0, max(space.n for space in spaces) - 1, "action")
        shape = np.max([space.shape for space in spaces], axis=0)
        # Padding between 0 and 0: an agent with fewer numbers than others has nothing to choose there.
        bounds = [
            np.stack([_padded(np, np.broadcast_to(getattr(space, bound), space.shape), shape) for space in spaces])
            for bound in ("low", "high")
        ]
        low, high = (x if len(spaces) > 1 else x[0] for x in bounds)
        return specs.Bounded(low.shape, np.float32, low, high, "action")

    @property
    def _discrete(self) -> bool:
        return all(hasattr(self.env.action_space(agent), "n") for agent in self.agents)

    def _actions(self, action: jax.Array) -> dict[str, jax.Array]:
        given = {}
        for agent, x in zip(self.agents, action if len(self.agents) > 1 else action[None], strict=True):
            space = self.env.action_space(agent)
            given[agent] = jnp.minimum(x, space.n - 1) if self._discrete else x[tuple(map(slice, space.shape))]
        return given

    def _stacked(self, of_agents: Mapping[str, Any]) -> Tree:
        """Stacks what is given for each agent, padded with zeros to one shape. Other entries are left out."""
        each = [of_agents[agent] for agent in self.agents]
        if len(each) == 1:
            return each[0]

        def stack(*arrays: Any) -> jax.Array:
            shape = np.max([jnp.shape(x) for x in arrays], axis=0)
            return jnp.stack([_padded(jnp, jnp.asarray(x), shape) for x in arrays])

        return jax.tree.map(stack, *each)

    def _of_each(self, value: Any) -> Tree:
        """Returns an entry of the info for each agent; what has no agents is repeated."""
        if isinstance(value, Mapping) and set(self.agents) <= set(value):
            return self._stacked(value)
        count = len(self.agents)
        if count == 1:
            return value

        def repeated(x: Any) -> jax.Array:
            return x if jnp.shape(x)[:1] == (count,) else jnp.broadcast_to(x, (count, *jnp.shape(x)))

        return jax.tree.map(repeated, value)

    def _state_info(self, observations: Mapping[str, Any], state: Any) -> dict[str, Tree]:
        info: dict[str, Tree] = {}
        if self._discrete and (mask := self._mask(state)) is not None:
            info["action_mask"] = mask
        if "world_state" in observations:
            info["world_state"] = self._of_each(observations["world_state"])
        elif hasattr(self.timed, "get_world_state"):
            info["world_state"] = self._of_each(self.timed.get_world_state(state))
        return info

    def _mask(self, state: Any) -> jax.Array | None:
        """Returns the legal actions, bool ``[A, n]``, or ``None`` where each agent may always take all of n actions."""
        legal = getattr(self.env, "get_legal_moves", self.env.get_avail_actions)  # Hanabi has its own name
        with contextlib.suppress(NotImplementedError):
            return jax.tree.map(lambda x: x.astype(bool), self._stacked(legal(state)))
        counts = [self.env.action_space(agent).n for agent in self.agents]
        if len(set(counts)) == 1:
            return None
        return self._stacked({agent: np.ones(count, bool) for agent, count in zip(self.agents, counts, strict=True)})


def _padded(numpy: Any, x: Any, shape: Sequence[int]) -> Any:
    if x.shape == tuple(shape):
        return x
    return numpy.pad(x, [(0, int(size) - own) for size, own in zip(shape, x.shape, strict=True)])


def _named(id: str, argument: str, value: Any) -> Any:
    """Returns the layout or scenario of a name; other values as they are."""
    if (id, argument) == ("overcooked", "layout") and isinstance(value, str):
        return _jaxmarl().environments.overcooked.overcooked_layouts[value]
    if argument == "scenario" and isinstance(value, str):
        return _jaxmarl().environments.smax.map_name_to_scenario(value)
    return value


single, action_and_limit, docstring = functions_of(JaxmarlSingle)


def _class(name: str) -> Any:
    check_known("jaxmarl", name, ids())
    return getattr(_jaxmarl().registration, _CLASSES[name])


def _jaxmarl() -> Any:
    with contextlib.redirect_stdout(sys.stdout):  # restores it: the import replaces it
        return library("jaxmarl")()
