"""Films of the policies that ship with the library, for the pages of their environments.

``python docs/pictures/films.py [ID ...]`` writes ``films/ID.gif``, for all ids in about ten minutes.
"""

import pathlib
import sys

import jaxenv
from jaxenv import training

FOLDER = pathlib.Path(__file__).parent / "films"


def main(ids: list[str]) -> None:
    """Films the policy of the best baseline of each id."""
    FOLDER.mkdir(exist_ok=True)
    for id in ids or sorted({id for id, _ in training.baseline_ids()}):
        best = training.baseline(id)
        env = best.make_env(num_envs=1)
        played = {"initial_memory": best.make_memory(1), "num_steps": 80, "size": 96, "fps": 20}
        path = jaxenv.record(env, best.policy, FOLDER / f"{id}.gif", **played)
        print(f"{id}: {path.stat().st_size // 1000} kB", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
