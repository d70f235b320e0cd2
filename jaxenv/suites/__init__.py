"""Environments of other libraries, one module per library, made by prefix: ``jaxenv.load("gymnax:Catch-bsuite")``.

A suite runs the library's single-lane code under ``jax.vmap`` and returns tasks of this library. Its common parts are
``_spaces`` (specs from spaces) and ``_params`` (structs of params, and calls with params per lane).
"""

from jaxenv.suites import gymnax as gymnax
