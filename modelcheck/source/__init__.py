"""Reading modeling files: text, discovery, classes, configuration. Never executes them."""
