"""Environments written as batched arrays, one a file, made by id: ``jaxenv.make("CartPole-v1", num_envs=8)``."""
