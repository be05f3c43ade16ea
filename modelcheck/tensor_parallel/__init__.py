"""How vLLM shards a model over tensor-parallel ranks, worked out without vLLM."""

from modelcheck.tensor_parallel.results import LinearPlan, Problem, Shard, SizePlan, TpReport
from modelcheck.tensor_parallel.run import run_tp

__all__ = ["LinearPlan", "Problem", "Shard", "SizePlan", "TpReport", "run_tp"]
