"""Tests that build modules are left out where there is no torch."""

from importlib.util import find_spec

if find_spec("torch") is None or find_spec("transformers") is None:
    collect_ignore = ["test_mapping.py", "test_wrong.py"]
