"""Normalisation layers that no fuser takes."""
