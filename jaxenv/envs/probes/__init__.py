"""Small tasks that each ask a learner one question, from ALF and TF-Agents."""
