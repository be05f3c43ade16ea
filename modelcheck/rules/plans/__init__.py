"""Family 8: tensor-parallel plans."""
