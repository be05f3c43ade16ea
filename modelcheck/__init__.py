"""modelcheck: will vLLM serve this modeling code fused?"""

__version__ = "0.1.0"
