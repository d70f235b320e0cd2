"""Tests of `jaxenv.rollout.metrics`.

The unfinished episode and the state are tested through `Metrics` in test_metrics.py, `to_host` by its doctest.
"""
