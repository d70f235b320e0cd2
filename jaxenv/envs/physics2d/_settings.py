"""Box2D's constants (b2Settings.h), in metres, radians and seconds. float32, as in Box2D."""

import numpy as np

LINEAR_SLOP = np.float32(0.005)
ANGULAR_SLOP = np.float32(2 / 180 * np.pi)
MAX_LINEAR_CORRECTION = np.float32(0.2)
MAX_ANGULAR_CORRECTION = np.float32(8 / 180 * np.pi)
MAX_TRANSLATION = np.float32(2.0)  # of a body in one step
MAX_ROTATION = np.float32(0.5 * np.pi)
BAUMGARTE = np.float32(0.2)
TOI_BAUMGARTE = np.float32(0.75)
POLYGON_RADIUS = np.float32(0.01)  # the skin of polygons and edges
TOTAL_RADIUS = np.float32(0.02)
AABB_EXTENSION = np.float32(0.1)
AABB_MULTIPLIER = np.float32(2.0)
MAX_CONDITION = np.float32(1000.0)  # of the 2 x 2 system of two contact points
TIME_TO_SLEEP = np.float32(0.5)
LINEAR_SLEEP_TOLERANCE = np.float32(0.01)
ANGULAR_SLEEP_TOLERANCE = np.float32(2 / 180 * np.pi)
VELOCITY_ITERATIONS, POSITION_ITERATIONS = 180, 60  # at most in a step, as in Gymnasium's tasks
MAX_SUB_STEPS = 8  # events of one contact in continuous collision
