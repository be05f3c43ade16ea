"""vLLM's way of calling a model, imitated without vLLM, and compared with transformers' own.

`run` looks at one model, `compare_runs` at two versions of one model's code.
"""

from modelcheck.emulate.results import EmulationReport, VersionsReport
from modelcheck.emulate.run import compare_runs, run
from modelcheck.emulate.spec import EmulateSpec

__all__ = ["EmulateSpec", "EmulationReport", "VersionsReport", "compare_runs", "run"]
