"""Expectations: what fuses in a model, recorded, and compared with what fuses later."""
