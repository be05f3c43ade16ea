"""Gated MLPs that no fuser takes."""
