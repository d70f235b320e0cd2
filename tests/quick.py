"""The files of the quick tests: some for every room and every family of environments.

A test of these files that takes more than two seconds of processor time is marked ``slow`` and runs with ``--all``.
`tests/test_tiers.py` requires an entry for every folder of tests.
"""

# By folder; FOLDER/test_NAME.py for each name.
FILES = {
    "tests": "api architecture tiers arguments readme",
    "tests/canvas": "canvas gif shapes terminal",
    "tests/cli": "listing main",
    "tests/core": "actions declared multitask reset_where restart step_where timestep",
    "tests/core/bases": "batch_wrapper lane_wrapper",
    "tests/data": "from_episode minibatches returns shuffle transitions with_last",
    "tests/data/replay": "batch ring sum_tree prioritized_sampling",
    "tests/data/transformers": "hindsight image_scale reward_transformers",
    "tests/envs": "card_game tic_tac_toe",
    "tests/envs/box2d": "lunar_lander",
    "tests/envs/bsuite": "catch discounting_chain memory_chain",
    "tests/envs/classic_control": "pendulum acrobot",
    "tests/envs/grid": "grid_world",
    "tests/envs/grid/objects": "object_world",
    "tests/envs/minatar": "breakout freeway",
    "tests/envs/misc": "swimmer four_rooms",
    "tests/envs/physics2d": "world",
    "tests/envs/probes": "risky_branch masked_cart_pole",
    "tests/envs/toy_text": "blackjack taxi",
    "tests/interop": "arguments gymnasium packing",
    "tests/random": "distributions random",
    "tests/rollout": "evaluate film fold unroll",
    "tests/rollout/metrics": "sums totals",
    "tests/rollout/play": "controls",
    "tests/rollout/plot": "curves metrics",
    "tests/specs": "arrays fields sampling specs",
    "tests/suites": "suites",
    "tests/testing": "assert_max_traces chain compare counting",
    "tests/training": "config distributions networks truncation",
    "tests/tree": "structure tree",
    "tests/util": "checks files names xla",
    "tests/wrappers": (
        "action_wrappers autoreset frame_stack image_wrappers masked_actions normalize observation_wrappers"
        " previous_action_and_reward reward_wrappers sticky_action time_limit"
    ),
    "tests/wrappers/stack": "env_data make",
}


def files() -> list[str]:
    """The paths of the files."""
    return [f"{folder}/test_{name}.py" for folder, names in FILES.items() for name in names.split()]
