"""Tests of `jaxenv.cli`, one file per command; `jaxenv train` is tested in tests/training."""
