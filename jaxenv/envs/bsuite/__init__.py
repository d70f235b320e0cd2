"""The environments of bsuite, small tasks that each look at one ability of an agent."""
