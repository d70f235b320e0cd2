"""Toy text: small worlds whose states can be counted, and a card game."""
