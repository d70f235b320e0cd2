"""Benchmarks of jaxenv and of other libraries, interleaved in one process. See README.md."""
