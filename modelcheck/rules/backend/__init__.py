"""Family 3: what the base class, the base model and config.json must say."""
