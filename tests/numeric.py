"""Where the tests are that compare floats with references; their code is compiled as users compile it."""

PATHS = (
    "tests/envs/",
    "tests/test_lane_law.py",
    "tests/core/test_moments.py",
    "tests/util/test_numeric.py",
)
