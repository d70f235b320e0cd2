"""Cast observations to another dtype."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import specs, tree
from jaxenv.core import LeafObservationWrapper, clip


class DtypeObservation(LeafObservationWrapper):
    """Casts observations to another dtype. Bounds are cast like the values, and shapes do not change.

    Casting floats to integers truncates towards zero; casting to bool gives ``x != 0``. Owns ``observation``; maps
    ``env_info["final_observation"]`` in the same way.

    Args:
        dtype: a dtype that JAX has enabled, for example ``"float32"`` or ``np.float32``.
        fields: dotted paths of the leaves to cast; all by default.

    Raises:
        ValueError: for an invalid or disabled dtype, or if values of a leaf may not fit it, such as unbounded
            integers in a narrower dtype or unbounded floats in an integer dtype.

    >>> import jaxenv
    >>> env = jaxenv.wrappers.DtypeObservation(jaxenv.testing.Chain(length=5), "float32")
    >>> env.observation_spec()
    Bounded((), float32, 0.0, 4.0, name='observation')
    """

    dtype: Any = tree.static()

    in_evaluation = "kept"

    def convert(self) -> dict[str, Any]:
        try:
            return {"dtype": jnp.dtype(self.dtype).name}
        except TypeError:
            return {}  # which `check` reports

    def check(self) -> None:
        try:
            dtype = jnp.dtype(self.dtype)
        except TypeError:
            raise ValueError(f"DtypeObservation: dtype must be a dtype, got {self.dtype!r}") from None
        supported = dtype.kind == "b" or jnp.issubdtype(dtype, jnp.integer) or jnp.issubdtype(dtype, jnp.floating)
        if not supported or jax.dtypes.canonicalize_dtype(dtype) != dtype:
            raise ValueError(f"DtypeObservation: dtype must be a numeric dtype that JAX has enabled, got {dtype}")
        super().check()

    def fault(self, spec: specs.Array) -> str | None:
        dtype = jnp.dtype(self.dtype)
        if dtype.kind == "b" or dtype == spec.dtype:
            return None
        limits = jnp.iinfo(dtype) if jnp.issubdtype(dtype, jnp.integer) else jnp.finfo(dtype)
        ends = np.array(specs.bounds(spec), np.float64)
        fits = (ends >= float(limits.min)) & (ends <= float(limits.max))
        if jnp.issubdtype(dtype, jnp.floating):
            fits |= np.isinf(ends)
        return None if np.all(fits) else f"have bounds that fit {dtype}"

    def map_leaf(self, x: jax.Array, spec: specs.Array) -> jax.Array:
        dtype = jnp.dtype(self.dtype)
        if dtype.kind == "b":
            return x != np.zeros((), x.dtype)
        cast = jax.lax.convert_element_type(x, dtype)
        if spec.is_continuous and jnp.issubdtype(dtype, jnp.integer):  # platforms cast NaN differently
            low, high = specs.bounds(self.map_spec(spec))
            cast = clip(cast, specs.aligned(low, x.ndim), specs.aligned(high, x.ndim))
        return cast

    def map_spec(self, spec: specs.Array) -> specs.Array:
        dtype = jnp.dtype(self.dtype)
        if dtype == spec.dtype:
            return spec
        if dtype.kind == "b" or (spec.is_continuous and not isinstance(spec, specs.Bounded)):
            return specs.Array(spec.shape, dtype, spec.name)
        low, high = (bound.astype(dtype) for bound in specs.bounds(spec))
        return specs.Bounded(spec.shape, dtype, low, high, spec.name)
