"""Family 0: files and comments."""
