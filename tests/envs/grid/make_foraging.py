"""Records the behaviour of lbforaging in ``foraging.npz``, which the tests compare with.

    python -m venv lbf && lbf/bin/pip install numpy gymnasium && lbf/bin/pip install --no-deps lbforaging==2.0.0
    lbf/bin/python tests/envs/grid/make_foraging.py

Arrays of episodes have the steps last, one episode after the other, which compresses best.
"""

import pathlib
import zipfile

import numpy as np

EPISODES, DRAWS = 240, 20_000
GAMES = {
    "8x8-2p-2f-coop": {"size": 8, "agents": 2, "foods": 2, "force_coop": True},
    "10x10-3p-3f": {"size": 10, "agents": 3, "foods": 3},
    "2s-10x10-3p-3f": {"size": 10, "agents": 3, "foods": 3, "sight": 2},
    "15x15-4p-3f": {"size": 15, "agents": 4, "foods": 3},
    # Crowded, so that agents collide, share cells and load in vain, and that food sometimes finds no place.
    "crowd": {"size": 6, "agents": 5, "foods": 3, "sight": 1, "max_agent_level": 3, "penalty": 0.25},
    "plain": {"size": 5, "agents": 4, "foods": 2, "max_food_level": 5, "normalize_reward": False},
}


def make(size, agents, foods, sight=0, max_agent_level=2, max_food_level=0, force_coop=False, **kwargs):
    from lbforaging.foraging import ForagingEnv

    return ForagingEnv(
        players=agents,
        min_player_level=1,
        max_player_level=max_agent_level,
        min_food_level=1,
        max_food_level=max_food_level or None,
        field_size=(size, size),
        max_num_food=foods,
        sight=sight or size,
        max_episode_steps=50,
        force_coop=force_coop,
        **kwargs,
    )


def begin(env, seed=None):
    """Starts an episode like a new environment, in which no agent stands where an earlier episode ended."""
    for player in env.players:
        player.position = None
    return np.array(env.reset(seed)[0])


def things(env):
    """Rows, columns and levels of agents, then of food, row by row; 0 for food that found no place."""
    found = [(*player.position, player.level) for player in env.players]
    found += [(y, x, env.field[y, x]) for y, x in zip(*np.nonzero(env.field), strict=True)]
    return np.pad(found, [(0, len(env.players) + env.max_num_food - len(found)), (0, 0)])


def masks(env):
    valid = [[action.value for action in env._valid_actions[player]] for player in env.players]
    return np.array([np.isin(np.arange(6), actions) for actions in valid])


def act(env, rng, food):
    """Walks to a food and loads it, at times acts at random."""
    places = np.argwhere(env.field)
    place = places[food % len(places)]
    actions = []
    for player in env.players:
        away = place - player.position
        vertical = rng.random() * abs(away).sum() < abs(away[0])
        towards = (2 if away[0] > 0 else 1) if vertical else (4 if away[1] > 0 else 3)
        greedy = 5 if abs(away).sum() == 1 else towards
        actions.append(int(rng.integers(6)) if rng.random() < 0.25 else greedy)
    return actions


def counts(drawn, agents, size):
    """How often agents, food and pairs of food are where they are, and how often which levels occur.

    Args:
        drawn: `things` of many starts, ``[N, agents + foods, 3]``.
        agents: their number.
        size: that of the field.
    """
    drawn = np.asarray(drawn, np.int64)
    cells, levels = drawn[..., 0] * size + drawn[..., 1], drawn[..., 2]
    lowest, placed = np.sort(levels[:, :agents], axis=1)[:, :3].sum(axis=1), levels[:, agents:] > 0
    foods = cells[:, agents:]
    pairs = [(i, j) for i in range(foods.shape[1]) for j in range(i)]
    apart = np.concatenate([(foods[:, i] - foods[:, j])[placed[:, i] & placed[:, j]] for i, j in pairs])
    return {
        "agents": np.bincount(cells[:, :agents].ravel(), minlength=size**2),
        "foods": np.bincount(foods[placed], minlength=size**2),
        "apart": np.bincount(apart, minlength=size**2),
        "agent_levels": np.bincount(levels[:, :agents].ravel(), minlength=16),
        "food_levels": np.bincount((16 * lowest[:, None] + levels[:, agents:]).ravel(), minlength=256),
    }


def record(name, settings, seed):
    """Episodes, and counts of starts."""
    rng, env = np.random.default_rng(seed), make(**settings)
    begin(env, seed)
    firsts, rows, steps, shared = [], [], [], 0
    for episode in range(EPISODES):
        observation, done = begin(env), False
        firsts.append((things(env), observation, masks(env)))
        while not done:
            action = act(env, rng, episode)
            observation, reward, done, truncated, _ = env.step(action)
            assert not truncated
            rows.append((np.array(action), np.array(observation), np.array(reward), masks(env)))
            shared += len({player.position for player in env.players}) < len(env.players)
        steps.append((env.current_step, not env.field.any()))
    actions, observations, rewards, mask = (np.stack(x, axis=-1) for x in zip(*rows, strict=True))
    paid = np.flatnonzero(rewards.any(axis=0))
    start, first_observation, first_mask = (np.stack(x) for x in zip(*firsts, strict=True))
    print(name, len(rows), "steps", sum(x for _, x in steps), "loaded", len(paid), "rewards", shared, "in one cell")
    drawn = np.stack([begin(env) is not None and things(env) for _ in range(DRAWS)])
    return {
        "steps": np.array(steps, np.int8),
        "start": small(start),
        "first_observation": small(first_observation),
        "first_mask": first_mask,
        "actions": small(actions),
        "observation": small(observations),
        "mask": mask,
        "paid": paid,
        "reward": rewards[:, paid],
        **{f"drawn_{k}": v for k, v in counts(drawn, settings["agents"], settings["size"]).items()},
    }


def small(numbers):
    assert (numbers == numbers.astype(np.int8)).all()
    return numbers.astype(np.int8)


def main():
    data = {"lbforaging": np.array("2.0.0")}
    for seed, (name, settings) in enumerate(GAMES.items()):
        data |= {f"{name}_{k}": v for k, v in record(name, settings, seed).items()}
    path = pathlib.Path(__file__).parent / "foraging.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as file:  # half as large as with savez_compressed
        for name, array in data.items():
            with file.open(f"{name}.npy", "w") as entry:
                np.lib.format.write_array(entry, array)


if __name__ == "__main__":
    main()
