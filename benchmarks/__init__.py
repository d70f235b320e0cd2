"""Benchmarks: this library beside its peers, in one process, in turn. See README.md."""
