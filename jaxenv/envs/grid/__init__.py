"""Grid worlds in the manner of MiniGrid: an agent that sees a part of a grid of walls, doors and keys."""
