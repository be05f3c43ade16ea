"""What the plan rules know of a model: its names, its plan, and what vLLM makes of each linear."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass

from modelcheck.findings import Finding, Severity
from modelcheck.fusers.contract import Contract
from modelcheck.fusers.match import Undecided
from modelcheck.fusers.results import Fires, FusionResult
from modelcheck.graph.ast_trace import trace_instance
from modelcheck.graph.configs import config_value
from modelcheck.graph.core import Graph
from modelcheck.graph.symbolic import all_answers
from modelcheck.graph.values import Config, Instance, Module
from modelcheck.rules.base import Context
from modelcheck.rules.modules import Tree, trees
from modelcheck.rules.names import Linear, Names, config_of, names_of
from modelcheck.rules.predictions import prediction_of
from modelcheck.source.bodies import headline
from modelcheck.source.classes import ClassInfo, FileIndex
from modelcheck.source.memory import remembered
from modelcheck.source.plans import Entry, Plan, tensor_plan
from modelcheck.source.repo import Repo

REDEFINING = ("MLA", "GLU", "QKV", "PackedQKV", "MergedColumnParallel")
SHARDING = ("QKV", "PackedQKV", "MergedColumnParallel")  # outputs that the forward itself sees
EXPERTS = "experts"


class Fate(enum.Enum):
    """What vLLM makes of a linear layer."""

    MERGED = enum.auto()  # part of a fused projection
    OUTPUT = enum.auto()  # what a fused projection leads to: sharded by rows
    PLANNED = enum.auto()  # left to the plan, replicated without an entry
    UNKNOWN = enum.auto()


@dataclass(frozen=True, eq=False)
class PlannedModel:
    """A text model under one answer to what is open in its constructors."""

    tree: Tree
    names: Names
    config: Config
    plan: Plan | None  # None: it cannot be told
    context: Context

    @property
    def info(self) -> ClassInfo:
        """The model's class."""
        return self.tree.model

    def fused_of(self, instance: Instance) -> tuple[FusionResult, ...] | None:
        """The fusers that take a module, None where one of them cannot be told."""
        if instance is self.names.instances.get(""):
            return ()  # vLLM never fuses the root
        if instance.info.file.classes.get(instance.info.name) is not instance.info:
            return None
        return _fused(self.context, instance.info)

    def fate(self, linear: Linear) -> Fate:
        """What vLLM makes of it."""
        if EXPERTS in linear.path.split("."):
            return Fate.UNKNOWN
        results = self.fused_of(linear.owner)
        if results is None:
            return Fate.UNKNOWN
        for result in results:
            details = dict(result.details)
            if linear.name in merged_names(result):
                return Fate.MERGED
            if linear.name == details.get("output"):
                return Fate.OUTPUT
            if result.fuser == "MLA" and linear.name in details.values():
                return Fate.UNKNOWN
        return Fate.PLANNED

    def left_to_plan(self) -> Iterator[Linear]:
        """The linear layers that the plan decides on."""
        for linear in self.names.linears.values():
            if self.fate(linear) is Fate.PLANNED:
                yield linear

    def style(self, linear: Linear) -> str | None:
        """The style that vLLM finds for a linear left to the plan; None where unknown."""
        if self.plan is None:
            return None
        entry = self.plan.first(linear.path)
        if entry is None:
            return "replicate"
        return entry.style if isinstance(entry.style, str) and entry.pattern is not None else None

    def members(self) -> Iterator[tuple[str, Instance]]:
        """One module for every class and set of children, in the order of the tree."""
        seen: set[tuple[str, tuple[str, ...]]] = set()
        for path, instance in self.names.instances.items():
            key = (instance.info.name, tuple(instance.children))
            if path and key not in seen:
                seen.add(key)
                yield path, instance


def merged_names(result: FusionResult) -> tuple[str, ...]:
    """The projections that a fused one replaces."""
    return tuple(name for name, _ in result.shards)


def head_size(model: PlannedModel) -> int | None:
    """The width of one head, as vLLM reads it off the configuration; None where unknown."""
    heads = config_value(model.config, "num_attention_heads")
    size = config_value(model.config, "head_dim")
    width = config_value(model.config, "hidden_size")
    if isinstance(size, int) and size > 0:
        return size
    return width // heads if isinstance(width, int) and isinstance(heads, int) and heads else None


def planned_models(context: Context) -> tuple[tuple[PlannedModel, ...], ...]:
    """The file's text models, each under every answer to what is open."""
    return _planned(context.file, context.repo, context.contract)


@remembered(maxsize=8)
def _planned(
    file: FileIndex, repo: Repo | None, contract: Contract
) -> tuple[tuple[PlannedModel, ...], ...]:
    context = Context(file, repo, contract)
    groups = trees(context)
    if not groups:
        return ()
    found = []
    for group in groups:
        models = []
        for tree in group:
            config = config_of(tree)
            if config is not None:
                plan = tensor_plan(tree.model, config.info, config.values)
                if _has_other_plans(tree):
                    plan = None
                models.append(PlannedModel(tree, names_of(tree), config, plan, context))
        if models and len(models) == len(group):
            found.append(tuple(models))
    return tuple(found)


def _fused(context: Context, info: ClassInfo) -> tuple[FusionResult, ...] | None:
    """The fusers that take a class, None where one of them cannot be told."""
    prediction = prediction_of(context, info) if info.file is context.file else None
    if prediction is None:
        return None
    results = [r for r in prediction.results if r.fuser in REDEFINING]
    if any(r.fires is Fires.UNKNOWN for r in results):
        return None
    return tuple(r for r in results if r.fires is Fires.YES)


def _has_other_plans(tree: Tree) -> bool:
    """Has a direct child a plan of its own, which transformers merges?"""
    children = tree.modules[0].instance.attributes.values() if tree.modules else ()
    return any(
        isinstance(child, Module)
        and child.info is not None
        and child.info.find_attribute("_tp_plan") is not None
        for child in children
    )


def graph_of(instance: Instance, contract: Contract) -> Graph | None:
    """The forward of one module, with the numbers of its constructor; None where undecided."""

    def run() -> Graph:
        return trace_instance(instance, contract)

    try:
        results, complete = all_answers(run, 1)
    except (Undecided, RecursionError):
        return None
    return results[0] if complete and results else None


def plan_finding(
    context: Context,
    code: str,
    severity: Severity,
    model: PlannedModel,
    entry: Entry | None,
    message: str,
    advice: str,
    tp_only: bool = True,
) -> Finding:
    """A finding at a plan's entry; on the model's class where the entry is in another file."""
    owner = entry.owner if entry is not None else None
    if entry is not None and entry.node is not None and owner and owner.file is context.file:
        return context.finding(code, severity, owner, entry.node, message, advice, tp_only=tp_only)
    return context.finding(
        code, severity, model.info, headline(model.info.node), message, advice, tp_only=tp_only
    )
