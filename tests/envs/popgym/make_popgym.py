"""Records whole episodes of POPGym with all that it drew, in ``recorded/GAME.npz``, which the tests compare with.

pip install popgym==1.0.7
python -m tests.envs.popgym.make_popgym                  # writes the files
python -m tests.envs.popgym.make_popgym --steps 200000   # compares this many fresh steps and writes nothing
"""

import argparse
import copy
import zlib

import numpy as np

from tests.envs.popgym import reference


def dealt(deck, kinds):
    """The kinds of a deck's cards in the order of dealing."""
    return kinds[deck.idx][::-1].copy()


def state_of(env):
    """The state of a pole or a pendulum; ours keeps angles of the pendulum in [-pi, pi)."""
    state = np.array(env.state, np.float64)
    if len(state) == 2:
        state[0] = (state[0] + np.pi) % (2 * np.pi) - np.pi
    return state


def noise_of(env):
    """The standard normal noise that the environment draws next, or none."""
    if not hasattr(env, "noise_sigma"):
        return np.zeros(2)
    return copy.deepcopy(env.np_random).normal(0, np.ones(2))


def start(env, seed):
    """Resets and returns the first observation and all that was drawn for the episode."""
    kind = type(env).__name__
    if "CartPole" in kind or "Pendulum" in kind:
        plain = copy.deepcopy(env)
        plain.__dict__.pop("noise_sigma", None)
        plain.add_noise_to_obs = lambda observation: observation
        plain.reset(seed=seed)
        noise = noise_of(plain) if not hasattr(env, "noise_sigma") else plain.np_random.normal(0, np.ones(2))
        observation, _ = env.reset(seed=seed)
        return observation, {"state": state_of(env), "noise": noise}
    observation, _ = env.reset(seed=seed)
    if "CountRecall" in kind:
        decks = (env.value_deck, env.query_deck)
        return observation, {"cards": np.stack([dealt(deck, env.deck_idx_type) for deck in decks], axis=-1)}
    if "HigherLower" in kind:
        return observation, {"cards": dealt(env.deck, env.deck.ranks_idx)}
    if "Repeat" in kind:
        return observation, {"cards": dealt(env.deck, env.deck.suits_idx)}
    if "Autoencode" in kind:
        return observation, {"deck": env.deck.suits_idx[env.deck.idx]}
    if "Concentration" in kind:
        return observation, {"deck": env.state.copy()}
    if "Battleship" in kind:
        return observation, {"board": env.board.copy()}
    if "MineSweeper" in kind:
        return observation, {"board": env.hidden_grid == 1}
    return observation, {"arms": env.bandits.copy()}


def act(env, skill, random):
    """An action that is right with probability ``skill``, else any."""
    kind, able = type(env).__name__, random.random() < skill
    if not able:
        return env.action_space.sample() if "Pendulum" not in kind else random.uniform(-3, 3, 1).astype(np.float32)
    if "RepeatFirst" in kind:
        return env.card
    if "RepeatPrevious" in kind:
        hand = env.deck["player"]
        return env.deck.suits_idx[hand[-env.k]] if len(hand) >= env.k else 0
    if "Autoencode" in kind:
        return env.deck.suits_idx[env.deck["system"][-1]]
    if "CountRecall" in kind:
        return env.counts[env.query]
    if "HigherLower" in kind:
        return int(env.deck.ranks_idx[env.deck["player"][0]] > 6)
    if "Battleship" in kind:
        return random.permutation(np.argwhere((env.board == 1) & (env.guesses == 0)))[0]
    if "MineSweeper" in kind:
        return random.permutation(np.argwhere(env.hidden_grid == 0))[0]
    if "Concentration" in kind:
        free = [i for i in range(env.deck.num_cards) if i not in env.deck["face_up_idx"]]
        turned = env.deck["in_play_idx"]
        if turned:
            free = [i for i in free if env.state[i] == env.state[turned[0]] and i != turned[0]] or free
        return int(random.choice(free))
    if "Bandit" in kind:
        return int(env.bandits.argmax())
    if "CartPole" in kind:
        x, x_dot, theta, theta_dot = env.state
        return int(theta + 0.4 * theta_dot + 0.02 * x + 0.06 * x_dot > 0)
    return np.float32([-2 * np.sign(env.state[1])])


def episode(env, seed, skill):
    """The rows of one episode."""
    random = np.random.default_rng(seed)
    env.action_space.seed(seed)
    observation, drawn = start(env, seed)
    rows = {name: [] for name in ("action", "reward", "terminated", "truncated", "seen", "full", "state", "noise")}
    rows["seen"].append(observation)
    rows["full"].append(env.get_state())
    ended = False
    while not ended:
        action = act(env, skill, random)
        rows["action"].append(action)
        if "arms" in drawn:
            rows["noise"].append(copy.deepcopy(env.np_random).random())
        elif "state" in drawn:
            rows["state"].append(state_of(env))
            rows["noise"].append(noise_of(env))
        observation, reward, terminated, truncated, _ = env.step(action)
        for name, value in zip(("reward", "terminated", "truncated"), (reward, terminated, truncated), strict=True):
            rows[name].append(value)
        rows["seen"].append(observation)
        rows["full"].append(env.get_state())
        ended = terminated or truncated
    arrays = {f"drawn.{name}": value for name, value in drawn.items()}
    for name, values in rows.items():
        leaves = zip(*values, strict=True) if values and isinstance(values[0], tuple) else [values]
        leaves = [leaf for leaf in leaves if len(leaf)]
        arrays |= {f"{name}.{number}": np.stack([np.asarray(x) for x in leaf]) for number, leaf in enumerate(leaves)}
    return arrays


def bounds(space):
    """The least and the largest values of a space: ``[2, ...]``."""
    if hasattr(space, "low"):
        return np.stack([space.low, space.high])
    if type(space).__name__ == "MultiBinary":
        high = np.ones(space.shape, int)
    else:
        high = np.asarray((space.nvec if hasattr(space, "nvec") else space.n) - 1)
    return np.stack([np.zeros_like(high), high])


def record(id, seeds):
    """The rows of episodes, with a leading axis of episodes; shorter ones repeat their last row."""
    import popgym

    env = getattr(popgym.envs, id.removesuffix("-popgym"))()
    first = zlib.crc32(id.encode()) % 10_000
    played = [episode(env, first + seed, (1.0, 0.7, 0.0)[seed % 3]) for seed in seeds]
    length = np.array([len(rows["reward.0"]) for rows in played])
    arrays = {"length": length}
    spaces = {"action": env.action_space, "seen": env.observation_space, "full": env.state_space}
    for name, space in spaces.items():
        for number, part in enumerate(getattr(space, "spaces", [space])):
            arrays[f"{name}_bounds.{number}"] = bounds(part)
    for name in played[0]:
        values = [rows[name] for rows in played]
        if not name.startswith("drawn."):
            most = max(map(len, values))
            values = [np.concatenate([x, np.repeat(x[-1:], most - len(x), axis=0)]) for x in values]
        stacked = np.stack(values)
        if stacked.dtype.kind in "iub" and stacked.size and abs(stacked).max() < 128:
            stacked = stacked.astype(np.int8)
        arrays[name] = stacked.astype(np.float32) if stacked.dtype == np.float64 else stacked
    return arrays


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=0, help="compare this many fresh steps in all")
    steps, total = parser.parse_args().steps, 0
    if steps:
        for id in reference.IDS:
            rows = record(id, range(100, 103))
            number = max(3, int(1.1 * steps / len(reference.IDS) / rows["length"].mean()))
            rows = record(id, range(100, 100 + number))
            error, played = reference.assert_equal(id, rows), int(rows["length"].sum())
            total += played
            print(f"{id:35} {number:5} episodes {played:7} steps, largest difference {error:.1e}", flush=True)
        print(f"{total} steps in all")
    else:
        reference.FOLDER.mkdir(exist_ok=True)
        for game in reference.GAMES:
            arrays = {
                f"{size}.{name}": values
                for size in reference.SIZES
                for name, values in record(f"{game}{size}-popgym", range(3)).items()
            }
            np.savez_compressed(reference.FOLDER / f"{game}.npz", **arrays)
