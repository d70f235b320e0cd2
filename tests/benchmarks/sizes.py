"""Sizes of the benchmark runs in tests."""

LANES, STEPS = 8, 40
SIZES = ["--num-envs", str(LANES), "--num-steps", str(STEPS), "--repeats", "1"]
