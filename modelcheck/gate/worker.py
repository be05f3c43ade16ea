"""One build of a model, judged by several vLLM releases: the worker's side of the gate."""

from __future__ import annotations

import importlib.metadata
from collections import Counter
from collections.abc import Mapping
from typing import Any

from modelcheck.fusers.contract import contract_for

JOB = "modelcheck.gate.worker:job"


def job(payload: Mapping[str, Any]) -> dict[str, Any]:
    """``payload``: ``spec`` (a `BuildSpec` as JSON), ``releases`` (of vLLM).

    The answer: ``classes`` (release to `ClassReport` as JSON), ``modules`` (class to how many
    of it the model has), ``layers``, ``transformers`` and ``notes``.
    """
    from modelcheck.dryrun.build import build
    from modelcheck.dryrun.causes import our_fault
    from modelcheck.dryrun.target import BuildSpec

    spec = BuildSpec(**payload["spec"])
    built = build(spec)
    with our_fault(spec.folder):
        from modelcheck.fusers.traced import analyse_model

        classes = {
            release: [
                report.to_json()
                for report in analyse_model(
                    built.model, config=built.config, contract=contract_for(release)
                )
            ]
            for release in payload["releases"]
        }
    return {
        "classes": classes,
        "modules": dict(Counter(type(module).__name__ for module in built.model.modules())),
        "layers": built.total_depth,
        "transformers": importlib.metadata.version("transformers"),
        "notes": list(built.notes),
    }
