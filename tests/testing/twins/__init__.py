"""Broken environments and wrappers, each with one fault that was shipped or nearly shipped somewhere.

``TWINS`` names the properties of ``check_env`` that reject each of them. The modules mirror the properties of the kit.
"""

from tests.testing.twins import agents, batch, episodes, randomness, structure, transformations, values, wrapping
from tests.testing.twins.twin import Twin as Twin
from tests.testing.twins.walk import Walk as Walk

TWINS: dict[str, Twin] = {
    **structure.TWINS,
    **transformations.TWINS,
    **batch.TWINS,
    **randomness.TWINS,
    **values.TWINS,
    **episodes.TWINS,
    **wrapping.TWINS,
    **agents.TWINS,
}
