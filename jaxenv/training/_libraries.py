"""The libraries of the extra ``training``."""

from jaxenv._util import source

try:
    import flax.linen as nn
    import optax
except ImportError as missing:
    raise source.missing("jaxenv.training", missing, "training") from missing

__all__ = ["nn", "optax"]
