"""The files of the quick tests: some for every room and every family of environments.

A test of these files whose cases take seconds of processor time is marked ``slow`` unless nothing else here finds what
it finds. All tests, slow ones included, run with ``--all``.
`tests/test_tiers.py` requires an entry for every folder of tests.
"""

# By folder; FOLDER/test_NAME.py for each name.
FILES = {
    "tests": "architecture arguments readme tiers",
    "tests/canvas": "canvas terminal",
    "tests/cli": "main",
    "tests/core": "actions declared reset_where timestep",
    "tests/core/bases": "batch_wrapper lane_wrapper",
    "tests/data": "from_episode minibatches returns transitions with_last",
    "tests/data/replay": "batch prioritized_sampling ring sum_tree",
    "tests/data/transformers": "image_scale reward_transformers",
    "tests/envs": "card_game",
    "tests/envs/board": "connect_four",
    "tests/envs/box2d": "lunar_lander",
    "tests/envs/bsuite": "catch discounting_chain",
    "tests/envs/classic_control": "pendulum",
    "tests/envs/grid": "grid_world",
    "tests/envs/grid/objects": "object_world",
    "tests/envs/minatar": "breakout freeway",
    "tests/envs/misc": "swimmer",
    "tests/envs/particle": "mpe2",
    "tests/envs/physics2d": "world",
    "tests/envs/popgym": "rules",
    "tests/envs/probes": "risky_branch masked_cart_pole",
    "tests/envs/toy_text": "blackjack",
    "tests/interop": "arguments gymnasium packing",
    "tests/random": "distributions random",
    "tests/rollout": "film fold unroll",
    "tests/rollout/metrics": "sums totals",
    "tests/rollout/play": "controls",
    "tests/rollout/plot": "curves evaluation",
    "tests/specs": "fields sampling specs",
    "tests/suites": "suites",
    "tests/testing": "bounded chain compare counting",
    "tests/training": "config distributions",
    "tests/tree": "structure tree",
    "tests/util": "checks files names",
    "tests/wrappers": (
        "action_wrappers autoreset frame_stack image_wrappers masked_actions normalize observation_wrappers"
        " previous_action_and_reward reward_wrappers sticky_action time_limit"
    ),
    "tests/wrappers/stack": "env_data",
}


def files() -> list[str]:
    """The paths of the files."""
    return [f"{folder}/test_{name}.py" for folder, names in FILES.items() for name in names.split()]
