"""Building a model without weights in its own process, and asking which fusers fire."""
