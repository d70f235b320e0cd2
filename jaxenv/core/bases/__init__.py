"""The bases of wrappers, public in ``jaxenv.wrappers``."""
