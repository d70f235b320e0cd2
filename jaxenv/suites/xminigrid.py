"""XLand-MiniGrid's environments as batched environments: ``jaxenv.make("xminigrid:MiniGrid-DoorKey-8x8", num_envs=8)``.

Rulesets are params: one for all lanes, or one per lane.
"""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import specs
from jaxenv._util.checks import check_integer
from jaxenv.core.environment import Environment
from jaxenv.suites._options import library, reporting
from jaxenv.suites._task import Single, Stepped, functions_of, load_task, params_struct, values_of
from jaxenv.tree import Tree

_xminigrid = library("xminigrid")
# Arrays of a ruleset.
_RULESET = ("goal", "rules", "init_tiles")


def ids() -> list[str]:
    """Returns the ids that ``load`` accepts: all ids registered with XLand-MiniGrid."""
    return sorted(_xminigrid().registration._REGISTRY)


def load(name: str, /, num_envs: int | None = None, *, ruleset: Any = None, **kwargs: Any) -> Environment:
    """Builds an environment of XLand-MiniGrid; keywords are also fields of the suite's ``EnvParams``.

    ``ruleset`` is an XLand-MiniGrid ``RuleSet`` for an XLand id; arrays that lead with ``[num_envs]`` hold one per
    lane. They become the params ``goal``, ``rules`` and ``init_tiles``. ``max_steps`` scales rewards, and is the time
    limit unless ``max_episode_steps`` is given.
    """
    built = single(name, ())
    fields = values_of(built.env_params)
    constructor = {field: fields[field] for field in fields if field not in ("ruleset", "render_mode")}
    if ruleset is not None:
        if "ruleset" not in fields:
            raise ValueError(f"xminigrid:{name}: ruleset must be None, only XLand ids have rules, got {ruleset!r}")
        arrays = {field: getattr(ruleset, field) for field in _RULESET}
        kwargs |= {**arrays, "num_rules": arrays["rules"].shape[-2], "num_tiles": arrays["init_tiles"].shape[-2]}
        constructor |= {"num_rules": 1, "num_tiles": 1}
    return load_task("xminigrid", name, num_envs, constructor, kwargs)


class XMiniGridSingle(Single):
    """An environment of XLand-MiniGrid; `single` builds each configuration once."""

    suite = "xminigrid"
    reset_strategy = "compact"

    def build(self, id: str, arguments: dict[str, Any]) -> None:
        reason = "branches fail the type check of shard_map, and XLA's TopK, which draws positions, gathers all lanes"
        self.opt_outs = {"sharding_invariant": reason}
        if id.startswith("MiniGrid-Empty-"):
            reason = f"all episodes of {id} start in the same state"
            self.opt_outs |= dict.fromkeys(("lanes_differ", "episodes_differ"), reason)
        sizes = {name: arguments.pop(name) for name in ("num_rules", "num_tiles") if name in arguments}
        with reporting(self.owner, arguments):
            self.env, self.env_params = _xminigrid().make(id, **arguments)
        check_integer(self.owner, "max_steps", self.env_params.max_steps, 1)
        self.limit = int(self.env_params.max_steps)
        if hasattr(self.env_params, "ruleset"):
            ruleset = {field: np.asarray(getattr(self.env_params.ruleset, field)) for field in _RULESET}
            for field, size in zip(("rules", "init_tiles"), sizes.values(), strict=False):
                ruleset[field] = np.repeat(ruleset[field][:1], size, axis=0)
            self.params = params_struct(self.owner, self.options, ruleset)

    def reset(self, values: Mapping[str, Any], key: jax.Array) -> tuple[Tree, Tree]:
        params = self.env_params
        if values:
            ruleset = params.ruleset.replace(**{f: values[f].astype(jnp.uint8) for f in _RULESET})
            params = params.replace(ruleset=ruleset)
        timestep = self.env.reset(params, key)
        return timestep.state, timestep.observation

    def step(self, values: Mapping[str, Any], key: jax.Array, state: Tree, action: Tree) -> Stepped:
        timestep = self.env.step(self.env_params, self.timestep(state), action)
        return timestep.state, timestep.observation, timestep.reward, timestep.discount == 0, {}

    def timestep(self, state: Tree) -> Any:
        """XLand-MiniGrid's TimeStep of a state; a step reads the state only."""
        return _xminigrid().types.TimeStep(state, step_type=(), reward=(), discount=(), observation=())

    def declared_action(self) -> Tree:
        return specs.discrete(self.env.num_actions(self.env_params), name="action")

    def declared_observation(self) -> Tree:
        constants = _xminigrid().core.constants
        highest = np.array([constants.NUM_TILES - 1, constants.NUM_COLORS - 1])
        shape = self.env.observation_shape(self.env_params)
        return specs.Bounded(shape, np.uint8, 0, np.broadcast_to(highest, shape), "observation")


single, action_and_limit, docstring = functions_of(XMiniGridSingle)
