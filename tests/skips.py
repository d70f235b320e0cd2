"""The tests that may be skipped where ``pip install -e ".[test]"`` was run; any other skip fails the run."""

from importlib import metadata

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

# Files, folders or tests: a part of the reason, such as a package of the extras clients, suites, torch or compilers.
ALLOWED = {
    "jaxenv/": "+SKIP",  # doctests of runs and of terminals
    "tests/benchmarks/test_launches.py": "no compiler for",
    "tests/benchmarks/test_learners.py": "brax",
    "tests/benchmarks/test_libraries.py": "jaxmarl, jumanji, pgx",
    "tests/clients/test_brax.py": "brax",
    "tests/clients/test_cleanrl.py": "torch",
    "tests/clients/test_gymnasium_torch.py": "torch",
    "tests/clients/test_jaxmarl.py": "jaxmarl",
    "tests/clients/test_migrate.py": "brax",
    "tests/clients/test_purejaxrl.py": "brax",
    "tests/clients/test_stable_baselines3.py": "torch, moviepy",
    "tests/clients/test_stoa.py": "stoa",
    "tests/clients/test_torchrl.py": "torch",
    "tests/data/test_minari.py": "minari",
    "tests/envs/board/test_games_of_pgx.py": "pgx",
    "tests/site/": "mkdocs build, needs node",
    "tests/suites/test_brax.py": "brax",
    "tests/suites/test_craftax.py": "craftax",
    "tests/suites/test_envpool.py": "envpool",
    "tests/suites/test_gymnasium.py::test_episodes_of_box2d_equal_those_of_the_bare_engine": "Box2D",
    "tests/suites/test_jaxmarl.py": "jaxmarl",
    "tests/suites/test_jumanji.py": "jumanji",
    "tests/suites/test_navix.py": "navix",
    "tests/suites/test_pages.py": "brax, craftax, envpool, jaxmarl, jumanji, mujoco_playground, navix, pgx, xminigrid",
    "tests/suites/test_pgx.py": "pgx",
    "tests/suites/test_playground.py": "mujoco_playground",
    "tests/suites/test_suites.py::test_certify_speaks_its_api": "craftax, mujoco_playground, navix, xminigrid",
    "tests/suites/test_xminigrid.py": "xminigrid",
    "tests/util/test_names.py": "brax, craftax, envpool, jaxmarl, jumanji, navix, pgx, playground, xminigrid",
    "tests/util/test_xla.py": "JAXENV_PLAIN",
}


def unlisted(reports) -> list[str]:
    """Returns a line for each of pytest's reports of a skipped file or test that is not allowed.

    Nothing is unlisted where a package of ``[test]`` is not installed, as with ``[test-quick]``.
    """
    lines = set()
    for report in reports:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        parts = [
            part for place, needs in ALLOWED.items() if report.nodeid.startswith(place) for part in needs.split(", ")
        ]
        if not any(part in reason for part in parts):
            lines.add(f"{report.nodeid}: {reason}")
    installed = {canonicalize_name(distribution.name) for distribution in metadata.distributions()}
    return sorted(lines) if installed.issuperset(_packages("test")) else []


def _packages(extra):
    """Yields the packages of an extra and of the extras that it names."""
    for requirement in map(Requirement, metadata.requires("jaxenv") or ()):
        if requirement.marker is not None and requirement.marker.evaluate({"extra": extra}):
            for inner in requirement.extras if requirement.name == "jaxenv" else ():
                yield from _packages(inner)
            if requirement.name != "jaxenv":
                yield canonicalize_name(requirement.name)
