"""Environments of other libraries, one module per library, made by prefix: ``jaxenv.make("gymnax:Catch-bsuite")``.

A suite runs the library's own starts, transitions, observations and rewards, written for one lane, under ``jax.vmap``
and without its wrappers. This library adds time limits, restarts and discounts. A module has ``load``, ``ids``,
``docstring``, ``action_and_limit`` and ``single``, which builds one configuration of one environment.
``envpool``, ``gymnasium`` and ``pettingzoo`` have no ``single``: their environments run outside JAX. Below all are

- ``_task``: the functions of one lane that a suite implements, with their params, and the task that maps them;
- ``_options``: constructor arguments as keywords of ``load``;
- ``_host`` and ``_engine``: the environment and its stack, and its engine, outside JAX;
- ``_gymnasium_lanes`` and ``_pettingzoo_lanes``: engines of Gymnasium, and games as environments of Gymnasium.

``load(name, num_envs, **kwargs)`` builds an environment with its stack of wrappers as `jaxenv.make` does. ``name`` is
an id of the library, ``num_envs`` the number of lanes that ``reset(key)`` makes, by default one game. Keywords
are options of `jaxenv.make` and arguments of the library's constructor. An ``ImportError`` says how to install the
library; a ``ValueError`` names an unknown id or keyword with the valid ones, or an invalid value.

``tests/suites/`` compares episodes with each library's own loop; ``docs/suites/`` has the mapping of each.
"""

from jaxenv.suites import brax as brax
from jaxenv.suites import bsuite as bsuite
from jaxenv.suites import craftax as craftax
from jaxenv.suites import envpool as envpool
from jaxenv.suites import gymnasium as gymnasium
from jaxenv.suites import gymnax as gymnax
from jaxenv.suites import jaxmarl as jaxmarl
from jaxenv.suites import jumanji as jumanji
from jaxenv.suites import navix as navix
from jaxenv.suites import pettingzoo as pettingzoo
from jaxenv.suites import pgx as pgx
from jaxenv.suites import playground as playground
from jaxenv.suites import xminigrid as xminigrid
