"""Tests of `jaxenv.play`."""
