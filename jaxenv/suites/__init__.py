"""Environments of other libraries, one module a library, made by prefix: ``jaxenv.load("gymnax:Catch-bsuite")``."""

from jaxenv.suites import gymnax as gymnax
