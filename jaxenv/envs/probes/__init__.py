"""Small tasks with known values and policies. Each tests one ability of a learner."""

from jaxenv.core import register

register("NoisyArray-v0", f"{__name__}.noisy_array:NoisyArray")
register("RiskyBranch-v0", f"{__name__}.risky_branch:RiskyBranch")
register(
    "MaskedCartPole-v0", f"{__name__}.masked_cart_pole:MaskedCartPole", max_episode_steps=200, reward_threshold=195.0
)
register(
    "MaskedCartPole-v1", f"{__name__}.masked_cart_pole:MaskedCartPole", max_episode_steps=500, reward_threshold=475.0
)
register(
    "BouncingSquares-v0", f"{__name__}.bouncing_squares:BouncingSquares", max_episode_steps=10, kwargs={"color": True}
)
register("ValueUnittest-v0", f"{__name__}.learning_tests:ValueUnittest")
register("PolicyUnittest-v0", f"{__name__}.learning_tests:PolicyUnittest")
register("MixedPolicyUnittest-v0", f"{__name__}.learning_tests:MixedPolicyUnittest")
register("RNNPolicyUnittest-v0", f"{__name__}.learning_tests:RNNPolicyUnittest", kwargs={"episode_length": 5})
