"""purejaxrl's PPO on CartPole-v1, unchanged but for the import of the environment.

git clone https://github.com/luchris429/purejaxrl
pip install "jaxenv[clients]"
python docs/examples/purejaxrl_ppo.py purejaxrl
"""

import contextlib
import csv
import importlib.util
import io
import pathlib
import sys
import types

import jax
import numpy as np

RESULTS = pathlib.Path(__file__).parent / "results" / "purejaxrl_ppo.csv"
IMPORT, OURS = "import gymnax\n", "from jaxenv.interop import gymnax_v0 as gymnax\n"
WINDOW = 10_000  # steps


def run(clone: pathlib.Path) -> dict[str, np.ndarray]:
    """Runs the main program of ``ppo.py`` and returns what its LogWrapper reports, ``[updates, steps, lanes]``."""
    sys.path.insert(0, str(clone / "purejaxrl"))
    if importlib.util.find_spec("navix") is None:
        # wrappers.py imports navix for a wrapper that ppo.py does not use.
        sys.modules["navix"] = types.ModuleType("navix")
    source = (clone / "purejaxrl" / "ppo.py").read_text()
    if source.count(IMPORT) != 1:
        raise SystemExit(f"{clone}: ppo.py must have one line {IMPORT.strip()!r}")
    program = {"__name__": "__main__"}
    with contextlib.redirect_stdout(io.StringIO()):  # it prints every episode
        exec(compile(source.replace(IMPORT, OURS), "ppo.py", "exec"), program)
        jax.effects_barrier()
    return jax.device_get(program["out"]["metrics"])


def curve(metrics: dict[str, np.ndarray]) -> list[tuple[int, float]]:
    """The mean return of the episodes that ended in each window of steps."""
    ended, returns = metrics["returned_episode"], metrics["returned_episode_returns"]
    steps = np.arange(ended.size).reshape(ended.shape) // WINDOW
    windows = np.unique(steps[ended])
    return [(int(w + 1) * WINDOW, float(returns[ended & (steps == w)].mean())) for w in windows]


if __name__ == "__main__":
    found = curve(run(pathlib.Path(sys.argv[1])))
    for steps, mean in found:
        print(f"{steps:7d}  {mean:6.1f}")
    with RESULTS.open("w", newline="") as file:
        csv.writer(file).writerows([("steps", "return"), *found])
