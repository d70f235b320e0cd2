"""The libraries of the extra ``training``."""

from jaxenv import _source

try:
    import flax.linen as nn
    import optax
except ImportError as missing:
    raise _source.missing("jaxenv.training", missing, "training") from missing

__all__ = ["nn", "optax"]
