"""Give observations another dtype."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import _numeric, specs, tree
from jaxenv._bounds import bounds
from jaxenv._wrapper_bases import LeafObservationWrapper


class DtypeObservation(LeafObservationWrapper):
    """Casts observations to another dtype; shapes stay, the bounds are those of the cast values.

    Floats become integers towards zero, numbers become bools by being other than 0. A choice among n stays within
    0 .. n - 1 (in Gymnasium's wrapper the upper bound becomes n). Owns ``observation``;
    ``env_info["final_observation"]`` is mapped alike.

    Args:
        env: any environment.
        dtype: a dtype that JAX has enabled, ``"float32"`` or ``np.float32`` say.
        fields: dotted paths of the leaves to cast; all by default.

    Raises:
        ValueError: for what is no such dtype, or where values of a leaf might not fit it: an unbounded integer in a
            narrower one, a float without bounds in any integer.

    >>> import jaxenv
    >>> env = jaxenv.wrappers.DtypeObservation(jaxenv.testing.Chain(length=5), "float32")
    >>> env.observation_spec()
    Bounded((), float32, 0.0, 4.0, name='observation')
    """

    dtype: Any = tree.static()

    def check(self):
        try:
            dtype = jnp.dtype(self.dtype)
        except TypeError:
            raise ValueError(f"DtypeObservation: dtype must be a dtype, got {self.dtype!r}") from None
        number = dtype.kind == "b" or jnp.issubdtype(dtype, jnp.integer) or jnp.issubdtype(dtype, jnp.floating)
        if not number or jax.dtypes.canonicalize_dtype(dtype) != dtype:
            raise ValueError(f"DtypeObservation: dtype must be one of numbers that JAX has enabled, got {dtype}")
        super().check()

    def fault(self, spec):
        dtype = jnp.dtype(self.dtype)
        if dtype.kind == "b" or dtype == spec.dtype:
            return None
        limits = jnp.iinfo(dtype) if jnp.issubdtype(dtype, jnp.integer) else jnp.finfo(dtype)
        ends = np.array(bounds(spec), np.float64)
        fits = (ends >= float(limits.min)) & (ends <= float(limits.max))
        if jnp.issubdtype(dtype, jnp.floating):
            fits |= np.isinf(ends)
        return None if np.all(fits) else f"have bounds that {dtype} holds"

    def map_leaf(self, x, spec):
        dtype = jnp.dtype(self.dtype)
        if dtype.kind == "b":
            return x != np.zeros((), x.dtype)
        cast = jax.lax.convert_element_type(x, dtype)
        if spec.is_continuous and jnp.issubdtype(dtype, jnp.integer):  # what NaN becomes, the platform decides
            low, high = bounds(self.map_spec(spec))
            cast = _numeric.clip(cast, specs.aligned(low, x.ndim), specs.aligned(high, x.ndim))
        return cast

    def map_spec(self, spec):
        dtype = jnp.dtype(self.dtype)
        if dtype == spec.dtype:
            return spec
        if dtype.kind == "b" or (spec.is_continuous and not isinstance(spec, specs.Bounded)):
            return specs.Array(spec.shape, dtype, spec.name)
        low, high = (bound.astype(dtype) for bound in bounds(spec))
        return specs.Bounded(spec.shape, dtype, low, high, spec.name)
