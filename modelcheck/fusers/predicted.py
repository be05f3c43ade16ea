"""Which fusers a class takes, from its source alone: the `predicted` evidence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from modelcheck.findings import Span
from modelcheck.fusers import moe
from modelcheck.fusers.ast_facts import AstFacts
from modelcheck.fusers.contract import Contract
from modelcheck.fusers.match import Env
from modelcheck.fusers.results import Fires, FusionResult
from modelcheck.fusers.select import outcomes
from modelcheck.graph.attributes import text_config
from modelcheck.graph.interpreter import Interpreter
from modelcheck.graph.symbolic import Sym, all_answers
from modelcheck.graph.values import Config, Module
from modelcheck.source.classes import ClassInfo, FileIndex
from modelcheck.source.config_defaults import config_class, read_config_class

MAX_ANSWERS = 24  # combinations of undecidable conditions tried for one class
RAISES = " raises"
MAX_CONSTRUCTIONS = 400  # distinct constructions followed in one file
MAX_VARIANTS = 6  # differently constructed instances of one class


@dataclass(frozen=True)
class ClassPrediction:
    """What is predicted for one class: a result for every fuser of the release."""

    info: ClassInfo
    results: tuple[FusionResult, ...]

    def result(self, fuser: str) -> FusionResult | None:
        """The result for one fuser."""
        return next((r for r in self.results if r.fuser == fuser), None)


def predict_file(
    file: FileIndex, contract: Contract, given: Mapping[str, Any] | None = None, tp: int = 1
) -> list[ClassPrediction]:
    """Predictions for every module class that a file defines.

    ``given`` are the values of config.json. A class is looked at as its parents construct it,
    from the models down; one that nothing constructs is looked at with unknown arguments.
    """
    constructed = _constructions(file, contract, given, tp)
    predictions = []
    for info in file.classes.values():
        if not info.is_module:
            continue
        variants = constructed.get(info.name, [])
        if info.kind == "pretrained" and len(variants) == 1:
            continue  # a model that no other model holds: vLLM never fuses the root itself
        variants = variants or [_root(info, contract, given, tp)]
        results = [_predict(variant, env) for variant, env in variants[:MAX_VARIANTS]]
        predictions.append(ClassPrediction(info, _join_variants(results)))
    return predictions


Variant = tuple[Module, Env]


def _root(info: ClassInfo, contract: Contract, given: Mapping[str, Any] | None, tp: int) -> Variant:
    """A class with its own configuration and no known caller."""
    config = _config(info, contract, given)
    return Module((), _unknown_arguments(info, config), info=info), _env(
        config, info.file, contract, tp
    )


def _constructions(
    file: FileIndex, contract: Contract, given: Mapping[str, Any] | None, tp: int
) -> dict[str, list[Variant]]:
    """How the file's classes are constructed, from the model classes down."""
    found: dict[str, list[Variant]] = {}
    seen: set[str] = set()
    pending = [
        _root(info, contract, given, tp)
        for info in file.classes.values()
        if info.kind == "pretrained"
    ]
    while pending:
        module, env = pending.pop()
        assert module.info is not None
        key = f"{module.info.name}{_show(module)}{env.head_size}{env.use_mla}"
        if key in seen or len(seen) > MAX_CONSTRUCTIONS:
            continue
        seen.add(key)
        found.setdefault(module.info.name, []).append((module, env))
        pending += [(member, env) for member in _members(module, contract)]
    return found


def _members(module: Module, contract: Contract) -> list[Module]:
    """The modules that a constructor makes, under every answer to what cannot be decided."""
    assert module.info is not None

    def run() -> list[Module]:
        interpreter = Interpreter(contract)
        interpreter.instantiate(module.info, list(module.args), dict(module.kwargs))  # type: ignore[arg-type]
        return interpreter.constructed

    results, _ = all_answers(run, MAX_ANSWERS)
    members: dict[str, Module] = {}
    for constructed in results:
        for member in constructed:
            members.setdefault(f"{member.class_name}{_show(member)}", member)
    return list(members.values())


def _show(module: Module) -> str:
    parts = [_show_value(a) for a in module.args]
    parts += [f"{k}={_show_value(v)}" for k, v in sorted(module.kwargs.items())]
    return f"({', '.join(parts)})"


def _show_value(value: Any) -> str:
    if isinstance(value, Config):
        return value.name
    if isinstance(value, Sym | int | float | str | type(None)):
        return str(value)
    return type(value).__name__


def _unknown_arguments(info: ClassInfo, config: Config) -> dict[str, Any]:
    """Arguments for a constructor nobody is seen to call."""
    found = info.find_method("__init__")
    if found is None:
        return {}
    arguments = found[1].args
    positional = [a.arg for a in (*arguments.posonlyargs, *arguments.args)][1:]
    required = positional[: len(positional) - len(arguments.defaults)]
    values: dict[str, Any] = {
        name: config if "config" in name else Sym.name(name) for name in required
    }
    if "config" in positional:
        values.setdefault("config", config)
    return values


def _config(info: ClassInfo, contract: Contract, given: Mapping[str, Any] | None) -> Config:
    source = config_class(info) or _only_config(info.file)
    if source is not None:
        results, _ = all_answers(lambda: read_config_class(source, contract, given), 1)
        return results[0]
    return Config("config", dict(given or {}), complete=False)


def _only_config(file: FileIndex) -> ClassInfo | None:
    """The configuration of a file's models, when they share one."""
    classes = {
        id(found): found
        for info in file.classes.values()
        if info.kind == "pretrained" and (found := config_class(info)) is not None
    }
    return next(iter(classes.values())) if len(classes) == 1 else None


def _env(config: Config, file: FileIndex, contract: Contract, tp: int) -> Env:
    """The deployment of the model with this configuration."""
    text = text_config(config)

    def read(name: str) -> Any:
        return text.values.get(text.attribute_map.get(name, name))

    head = read("head_dim")
    if not isinstance(head, int) or head <= 0:
        width, heads = read("hidden_size"), read("num_attention_heads")
        plain = isinstance(width, int) and isinstance(heads, int) and heads > 0
        head = width // heads if plain else Sym.name("the model's head size")
    latent = read("kv_lora_rank")
    # Without a configuration to read, a file that never names the rank has no latent attention.
    use_mla = "MLA" in contract.fusers and (
        latent is not None if text.complete else "kv_lora_rank" in file.source.text
    )
    known = read if text.complete else None
    return Env(contract=contract, tp=tp, head_size=head, use_mla=use_mla, config=known)


def _predict(module: Module, env: Env) -> list[FusionResult]:
    """All fusers on one construction of a class, over all undecidable conditions."""

    def run() -> dict[str, FusionResult]:
        fresh = replace_instance(module)
        return outcomes(AstFacts(fresh, env.contract), env)

    results, complete = all_answers(run, MAX_ANSWERS)
    # A configuration for which the constructor or the forward raises is not one to judge by.
    results = [r for r in results if not _raises(r)] or results
    names = (*env.contract.fusers, moe.NAME)
    merged = []
    for name in names:
        merged.append(_agree([r[name] for r in results if name in r], name, module, complete))
    return [m for m in merged if m is not None]


def _raises(results: Mapping[str, FusionResult]) -> bool:
    return any(RAISES in r.reason for r in results.values())


def replace_instance(module: Module) -> Module:
    """The same construction, not yet looked into."""
    return Module(module.args, dict(module.kwargs), module.dotted, module.info, module.items)


def _agree(
    results: list[FusionResult], name: str, module: Module, complete: bool
) -> FusionResult | None:
    """One result for all the ways undecidable conditions may turn out."""
    if not results:
        return None
    answers = {(r.fires, r.becomes) for r in results}
    near = [r for r in results if ("near", "yes") in r.details]
    if len(answers) == 1 and complete:
        result = near[0] if near else results[0]
        return result if all(r.wrong for r in results) else replace(result, wrong="")
    reason = _disagreement(results, complete)
    span: Span | None = next((r.span for r in results if r.span), None)
    return FusionResult(name, Fires.UNKNOWN, module.class_name, reason, span=span)


def _disagreement(results: list[FusionResult], complete: bool) -> str:
    """Why several evaluations of one class give no one answer."""
    for result in results:
        if result.fires is Fires.UNKNOWN:
            return result.reason
    if not complete:
        return "too many conditions cannot be decided"
    ways = dict.fromkeys(r.reason or r.becomes for r in results)
    return f"it depends on the configuration ({' or '.join(list(ways)[:2])})"


def _join_variants(results: Iterable[list[FusionResult]]) -> tuple[FusionResult, ...]:
    """One result per fuser for all constructions of a class: they agree, or it is unknown."""
    joined: dict[str, FusionResult] = {}
    for variant in results:
        for result in variant:
            known = joined.get(result.fuser)
            if known is None or (known.wrong and not result.wrong):
                joined[result.fuser] = result
            elif (known.fires, known.becomes) != (result.fires, result.becomes):
                joined[result.fuser] = replace(
                    known,
                    fires=Fires.UNKNOWN,
                    reason="instances of this class differ",
                )
    return tuple(joined.values())
