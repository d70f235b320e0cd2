"""Constants that gymnax calls by another name."""

_CART_POLE = {"force": "force_mag", "position_limit": "x_threshold", "angle_limit": "theta_threshold_radians"}

# Id -> name of a param or an option -> gymnax's name of the same quantity in the same unit.
CONSTANT_NAMES = {
    "CartPole-v0": _CART_POLE,
    "CartPole-v1": _CART_POLE,
    "Pendulum-v1": {"gravity": "g", "mass": "m", "length": "l"},
    "Acrobot-v1": {
        "length_1": "link_length_1",
        "mass_1": "link_mass_1",
        "mass_2": "link_mass_2",
        "com_1": "link_com_pos_1",
        "com_2": "link_com_pos_2",
        "inertia": "link_moi",
        "max_rate_1": "max_vel_1",
        "max_rate_2": "max_vel_2",
    },
}
