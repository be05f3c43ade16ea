"""Family 9: what newer transformers releases break."""
