"""Rules about what travels from the base model to the attention."""
