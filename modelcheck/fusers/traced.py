"""Which fusers a built model takes: the `traced` evidence, class by class.

Walks a base model as vLLM's replacement does (contract sections 1.7 and 2.1).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

from torch import nn

from modelcheck.dryrun.build import register_attention
from modelcheck.fusers import moe
from modelcheck.fusers.contract import Contract
from modelcheck.fusers.match import Env, Undecided
from modelcheck.fusers.results import ClassReport, Fires, FusionResult
from modelcheck.fusers.select import Candidates, candidates, choose, outcomes
from modelcheck.fusers.torch_facts import TorchFacts

EXPERT_COUNTS = ("num_experts", "moe_num_experts", "n_routed_experts", "num_local_experts")
LOOK_ALIKES = frozenset({"GLU", "QKV", "PackedQKV", "RMSNorm", "MLA", "Attention"})


def analyse_model(
    model: nn.Module, *, config: Any, contract: Contract, tp: int = 1
) -> list[ClassReport]:
    """The fusers that apply to every module of a base model, grouped by class.

    ``model`` is the base model (no head) as vLLM builds it: on the meta device, in training
    mode, with ``config`` its (text) config's parent; ``tp`` the tensor-parallel size.
    """
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    env = Env(
        contract=contract,
        tp=tp,
        head_size=head_size(text),
        use_mla="MLA" in contract.fusers and _read(text, "kv_lora_rank") is not None,
        config=lambda name: _read(text, name),
    )
    walk = _Walk(Structures(model, env), is_moe=_expert_count(text) > 0)
    walk.visit(model, "")
    return walk.reports()


def config_reader(config: Any) -> Callable[[str], Any]:
    """Reads a field of a model's text config, None for one it does not have."""
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    return lambda name: _read(text, name)


def trace_one(
    module: nn.Module, contract: Contract, tp: int, model_head_size: int | None
) -> list[FusionResult]:
    """All fusers of a release on one module, that fire and that do not."""
    register_attention()
    facts = TorchFacts(module, contract)
    config = getattr(module, "config", None)
    # Without a config that says otherwise, a module of this shape belongs to an MLA model.
    latent = getattr(config, "kv_lora_rank", True)
    mla = "MLA" in contract.fusers and latent is not None
    read = (lambda name: _read(config, name)) if config is not None else _without_config
    env = Env(contract, tp, model_head_size, mla, read)
    return list(outcomes(facts, env).values())


def _without_config(name: str) -> None:
    """A module alone: a factor that only a config could explain counts as unexplained."""
    if name != "routed_scaling_factor":
        raise Undecided(f"there is no config to read {name} from")


def graphs_of(model: nn.Module, class_name: str, contract: Contract) -> list[str]:
    """The traced graphs of a class's modules, one for each distinct set of children."""
    shown: dict[tuple[str, ...], str] = {}
    for path, module in model.named_modules():
        if type(module).__name__ == class_name:
            facts = TorchFacts(module, contract)
            shown.setdefault(facts.child_names, f"{path}:\n{facts.graph()}")
    return list(shown.values())


def head_size(text_config: Any) -> int | None:
    """The model-wide head size as vLLM reads it from the text config."""
    for name in ("head_dim", "hidden_size_per_head"):
        value = _read(text_config, name)
        if isinstance(value, int) and value > 0:
            return value
    heads, width = _read(text_config, "num_attention_heads"), _read(text_config, "hidden_size")
    if isinstance(heads, int) and isinstance(width, int) and heads > 0:
        return width // heads
    return None


def _read(config: Any, name: str) -> Any:
    """A field of a config; heterogeneous ones raise for what differs by layer."""
    try:
        return getattr(config, name, None)
    except Exception:
        return None


def _expert_count(text_config: Any) -> int:
    for name in EXPERT_COUNTS:
        if hasattr(text_config, name):
            value = getattr(text_config, name)
            if isinstance(value, list | tuple):
                value = value[0] if value else 0
            return int(value or 0)
    for block in getattr(text_config, "block_configs", None) or ():
        if isinstance(block, dict) and block.get("block_type") == "moe":
            return int(block.get("n_routed_experts") or 0)
    return 0


class Structures:
    """What matched each class of a model, learnt from one of its instances as vLLM does."""

    def __init__(self, model: nn.Module, env: Env) -> None:
        self.env = env
        self._found: dict[Any, Candidates] = {}
        self._judged: dict[type, nn.Module] = {}  # by which instance, where the class is the key
        contract = env.contract
        if not contract.keyed_by_children:
            for module in model.modules():
                if contract.last_instance_decides or type(module) not in self._judged:
                    self._judged[type(module)] = module

    def fusers(self, facts: TorchFacts) -> tuple[list[FusionResult], list[FusionResult]]:
        """The fusers a module takes, and those that it does not."""
        key: Any = type(facts.module)
        judged = facts
        if self.env.contract.keyed_by_children:
            key = (key, facts.child_names)
        elif key in self._judged:
            judged = TorchFacts(self._judged[key], self.env.contract)
        if key not in self._found:
            self._found[key] = candidates(judged, self.env)
        found = self._found[key]
        chosen, refused = choose(found, facts, self.env)
        return chosen, [*found.missed, *refused]


class _Walk:
    """One pass over a model, with what was learnt of each class."""

    def __init__(self, structures: Structures, is_moe: bool) -> None:
        self.env = structures.env
        self.structures = structures
        self.is_moe = is_moe
        self.groups: dict[tuple[str, Any], list[str]] = defaultdict(list)
        self.missed: dict[str, list[FusionResult]] = defaultdict(list)

    def visit(self, module: nn.Module, path: str) -> None:
        """Look at a module's children, and into them."""
        for name, child in module.named_children():
            inner = f"{path}.{name}" if path else name
            if _is_replaced_whole(child):
                continue
            facts = TorchFacts(child, self.env.contract)
            fusions, missed = self.structures.fusers(facts)
            block = self._moe_block(facts)
            if block is not None:
                if "internal" in block.becomes:
                    fusions = [f for f in fusions if f.fuser == "Attention"]
                fusions = [*fusions, block]
            if fusions or any(_worth_a_word(m) for m in missed):
                self.groups[type(child).__name__, tuple(fusions)].append(inner)
                known = self.missed[type(child).__name__]
                known += [m for m in missed if m not in known]
            if "RMSNorm" in {f.fuser for f in fusions}:
                continue  # the module is replaced; there is nothing left inside
            self._descend(child, inner, skip_experts=block is not None)

    def _descend(self, module: nn.Module, path: str, skip_experts: bool) -> None:
        if not skip_experts:
            self.visit(module, path)
            return
        kept = nn.Module()
        for name, child in module.named_children():
            if name != moe.EXPERTS:
                kept.add_module(name, child)
        self.visit(kept, path)

    def _moe_block(self, facts: TorchFacts) -> FusionResult | None:
        if not self.is_moe or not moe.has_replaceable_experts(facts):
            return None
        return moe.match_block(facts, self.env)

    def reports(self) -> list[ClassReport]:
        """One report per class and set of fusers, in order of first appearance."""
        reports = []
        for (class_name, fusions), paths in self.groups.items():
            fired = {f.fuser for f in fusions}
            missed = tuple(
                m
                for m in self.missed[class_name]
                if m.fuser not in fired and _worth_a_word(m) and not _outranked(m, fired)
            )
            reports.append(ClassReport(class_name, tuple(paths), fusions, missed))
        return reports


def _is_replaced_whole(module: nn.Module) -> bool:
    """Modules that vLLM replaces or leaves without asking a fuser, and without looking inside."""
    return isinstance(module, nn.Linear | nn.Embedding | nn.LayerNorm | nn.Conv2d | nn.Conv3d)


def _worth_a_word(result: FusionResult) -> bool:
    return result.fuser in LOOK_ALIKES and (
        result.fires is Fires.UNKNOWN or ("near", "yes") in result.details
    )


def _outranked(result: FusionResult, fired: set[str]) -> bool:
    """A miss that does not matter since a better fuser took the module."""
    return bool(fired & {"MLA", "QKV", "PackedQKV", "GLU"}) and result.fuser != "Attention"
