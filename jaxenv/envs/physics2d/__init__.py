"""Simulates jointed rigid bodies on a chain of static edges and blocks as Box2D does, for a batch of lanes.

Names follow Box2D 2.3 (Erin Catto): sequential impulses with warm starting, a block solver for two contact
points, position correction, continuous collision (time of impact) and sleep, in Box2D's order. One step agrees with
Box2D's ``World.Step`` to the rounding of float32; tests/envs/physics2d compares it with recorded steps.

Inside the package the lanes are the *last* axis: bodies ``[n, B]``, contacts ``[n, K, B]``. Neighbouring lanes fill a
vector register, regardless of the number of bodies. `pack` and `unpack` convert states.

Not covered, because no task needs it: contacts between moving bodies, restitution, circles, bullets, moving ground.
"""

from jaxenv.envs.physics2d._block import Blocks as Blocks
from jaxenv.envs.physics2d._broad import Box as Box
from jaxenv.envs.physics2d._broad import Chain as Chain
from jaxenv.envs.physics2d._revolute import JointImpulses as JointImpulses
from jaxenv.envs.physics2d._scene import Body as Body
from jaxenv.envs.physics2d._scene import RevoluteJoint as RevoluteJoint
from jaxenv.envs.physics2d._scene import Scene as Scene
from jaxenv.envs.physics2d._world import FreeWorld as FreeWorld
from jaxenv.envs.physics2d._world import Packed as Packed
from jaxenv.envs.physics2d._world import Step as Step
from jaxenv.envs.physics2d._world import World as World
from jaxenv.envs.physics2d._world import corners as corners
from jaxenv.envs.physics2d._world import origin as origin
from jaxenv.envs.physics2d._world import pack as pack
from jaxenv.envs.physics2d._world import start as start
from jaxenv.envs.physics2d._world import step as step
from jaxenv.envs.physics2d._world import step_free as step_free
from jaxenv.envs.physics2d._world import unpack as unpack
from jaxenv.envs.physics2d._world import with_blocks as with_blocks
