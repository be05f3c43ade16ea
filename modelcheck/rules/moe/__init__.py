"""Rules about mixture-of-experts blocks."""
