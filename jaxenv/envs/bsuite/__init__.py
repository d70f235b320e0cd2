"""The environments of bsuite. Each is a small task that tests one capability of an agent."""

from jaxenv.core import register

register("Catch-bsuite", f"{__name__}.catch:Catch")
register("DeepSea-bsuite", f"{__name__}.deep_sea:DeepSea")
register("DeepSeaStochastic-bsuite", f"{__name__}.deep_sea:DeepSea", kwargs={"deterministic": False})
register("MemoryChain-bsuite", f"{__name__}.memory_chain:MemoryChain")
register("UmbrellaChain-bsuite", f"{__name__}.umbrella_chain:UmbrellaChain")
register("DiscountingChain-bsuite", f"{__name__}.discounting_chain:DiscountingChain")
register("SimpleBandit-bsuite", f"{__name__}.simple_bandit:SimpleBandit")
register("MNISTBandit-bsuite", f"{__name__}.mnist_bandit:MNISTBandit")
register("CartPole-bsuite", f"{__name__}.cart_pole:CartPole")
register("CartPoleSwingup-bsuite", f"{__name__}.cart_pole_swingup:CartPoleSwingup")
register("MountainCar-bsuite", f"{__name__}.mountain_car:MountainCar")
