"""modelcheck: will vLLM serve this modeling code fused?"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from modelcheck.api import predict, trace

__version__ = "0.1.0"
__all__ = ["__version__", "predict", "trace"]


def __getattr__(name: str) -> object:
    """The API's functions, imported when they are first asked for."""
    if name in ("predict", "trace"):
        from modelcheck import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
