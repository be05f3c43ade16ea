"""The small graph that matchers look at, and the two tracers that make it."""
