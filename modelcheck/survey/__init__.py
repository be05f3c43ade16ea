"""``survey``: what fuses in every model type of an installed transformers."""
