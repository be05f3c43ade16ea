"""The rules: one file each, one folder per family."""
