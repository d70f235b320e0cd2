"""Specs: the shape, dtype and bounds of one lane's observation, action or reward.

A spec is frozen and hashable, and its shape never includes the batch axis. Trees of specs (dicts, tuples, structs)
describe trees of arrays; a spec is a leaf. Comparisons ignore names.
"""

from jaxenv.specs._array import Array as Array
from jaxenv.specs._array import Bounded as Bounded
from jaxenv.specs._array import aligned as aligned
from jaxenv.specs._array import bounds as bounds
from jaxenv.specs._array import check_spec as check_spec
from jaxenv.specs._array import discrete as discrete
from jaxenv.specs._array import fit as fit
from jaxenv.specs._array import nearest_zero as nearest_zero
from jaxenv.specs._array import rearranged as rearranged
from jaxenv.specs._flatten import flatten as flatten
from jaxenv.specs._flatten import flattened as flattened
from jaxenv.specs._flatten import unflatten as unflatten
from jaxenv.specs._from_gymnasium import from_gymnasium as from_gymnasium
from jaxenv.specs._trees import batched as batched
from jaxenv.specs._trees import contains as contains
from jaxenv.specs._trees import field_paths as field_paths
from jaxenv.specs._trees import from_array as from_array
from jaxenv.specs._trees import is_spec as is_spec
from jaxenv.specs._trees import map_marked as map_marked
from jaxenv.specs._trees import mapped_spec as mapped_spec
from jaxenv.specs._trees import require_equal as require_equal
from jaxenv.specs._trees import sample as sample
from jaxenv.specs._trees import select as select
from jaxenv.specs._trees import select_floats as select_floats
from jaxenv.specs._trees import unbatched as unbatched
from jaxenv.specs._trees import validate as validate
from jaxenv.specs._trees import zeros as zeros
