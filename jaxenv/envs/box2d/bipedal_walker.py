import math

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import physics2d, random, specs, tree
from jaxenv._numeric import clip, sin_cos
from jaxenv.physics2d import Body, Chain, Packed, RevoluteJoint, Scene, World, corners

FPS = 50
SCALE = 30.0  # pixels per metre of the original's picture
SPACING = 14 / SCALE  # of the ground's points, in metres
NEARBY = 6  # edges that a body can touch

_HULL = [(-30, 9), (-30, -8), (34, -8), (34, 1), (6, 9)]
_DOWN, _WIDTH, _LENGTH = -8 / SCALE, 8 / SCALE, 34 / SCALE
_TORQUE, _HIP_SPEED, _KNEE_SPEED = 80.0, 4.0, 6.0
_SIDES = (-1, 1)


def _box(width, height):
    x, y = width / 2, height / 2
    return [(-x, -y), (x, -y), (x, y), (-x, y)]


_HIP = {"anchor_a": (0, _DOWN), "anchor_b": (0, _LENGTH / 2), "lower": -0.8, "upper": 1.1}
_KNEE = {"anchor_a": (0, -_LENGTH / 2), "anchor_b": (0, _LENGTH / 2), "lower": -1.6, "upper": -0.1}
SCENE = Scene(
    [
        Body([(x / SCALE, y / SCALE) for x, y in _HULL], density=5.0, friction=0.1, solid=False),
        *[Body(_box(_WIDTH, _LENGTH), density=1.0), Body(_box(0.8 * _WIDTH, _LENGTH), density=1.0)] * 2,
    ],
    [
        RevoluteJoint(3, 4, **_KNEE),
        RevoluteJoint(0, 3, **_HIP, reference_angle=0.05),
        RevoluteJoint(0, 1, **_HIP, reference_angle=-0.05),
        RevoluteJoint(1, 2, **_KNEE),
    ],
    ground_friction=2.5,
    slots=8,
)
_X, _Y = 10 * SPACING, 400 / SCALE / 4 + 2 * _LENGTH
_ORIGINS = [
    (_X, _Y, 0.0),
    *(
        (_X, _Y - part * _LENGTH - _DOWN, side * 0.05)
        for side in _SIDES
        for part in (0.5, 1.5)
    ),
]


def _motors(action):
    """Speeds and torques of the joints in the order of the scene, for actions ``[B, 4]``."""
    order = (3, 2, 0, 1)
    speeds = [jnp.sign(action[:, i]) * np.float32(_KNEE_SPEED if i % 2 else _HIP_SPEED) for i in order]
    return speeds, [np.float32(_TORQUE) * jnp.clip(jnp.abs(action[:, i]), 0, 1) for i in order]
