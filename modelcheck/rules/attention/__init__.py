"""Rules about the attention interface."""
