"""Tests of `jaxenv.rollout`, one file per module; `_policy_loop` is tested through `unroll`."""
