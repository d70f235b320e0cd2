"""Tests of `jaxenv.rollout`, one file per module; `PolicyLoop` is tested through `unroll`."""
