"""Learners, each in one readable file: ``from jaxenv.training import ppo``.

They need the extra ``training`` (flax, optax), which is why nothing here imports them.
"""
