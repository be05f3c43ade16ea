"""Rules on config.json, the configuration class and the checkpoint beside them."""
