"""Which fusers a class takes, from its source alone: the `predicted` evidence."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from modelcheck.findings import Span
from modelcheck.fusers import moe
from modelcheck.fusers.ast_facts import AstFacts
from modelcheck.fusers.contract import Contract
from modelcheck.fusers.match import Env
from modelcheck.fusers.numbered import only_numbers
from modelcheck.fusers.possible import leading, may_fuse, parts_of
from modelcheck.fusers.results import Fires, FusionResult
from modelcheck.fusers.roots import Roots, Variant
from modelcheck.fusers.select import outcomes
from modelcheck.graph.interpreter import Interpreter
from modelcheck.graph.sharing import Made, construction, fresh
from modelcheck.graph.symbolic import all_answers
from modelcheck.graph.values import Config, Instance, Module
from modelcheck.source.classes import ClassInfo, FileIndex

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


class Predictions:
    """The predictions of one file's classes, each made when it is asked for.

    ``given`` are the values of config.json. A class is looked at as its parents construct it,
    from the models down; one that nothing constructs is looked at with unknown arguments. A
    model that no other of the file holds is left out unless ``roots`` asks for it: vLLM fuses
    it only as a part of another file's model. With ``possible``, a class whose words tell that
    it takes no fuser is not looked at, and has no results.
    """

    def __init__(
        self,
        file: FileIndex,
        contract: Contract,
        given: Mapping[str, Any] | None = None,
        tp: int = 1,
        roots: bool = False,
        possible: bool = False,
    ) -> None:
        self.file = file
        self._start = Roots(file, contract, given, tp)
        self._roots = roots
        self._possible = possible
        self._known: dict[str, ClassPrediction | None] = {}

    @cached_property
    def _constructed(self) -> dict[str, list[Variant]]:
        return _constructions(self._start, leading(self.file) if self._possible else None)

    @cached_property
    def uses_mla(self) -> bool:
        """Has one of the file's models latent attention?"""
        start = self._start
        some = start.pretrained or list(self.file.classes.values())
        return any(start.root(info).env.use_mla for info in some)

    def of(self, info: ClassInfo) -> ClassPrediction | None:
        """The prediction of one class, None for one that is left out."""
        if info.name not in self._known:
            self._known[info.name] = self._predict(info)
        return self._known[info.name]

    def _predict(self, info: ClassInfo) -> ClassPrediction | None:
        if not _is_module(info):
            return None
        if info.kind == "pretrained" and not self._roots and not self._is_part(info):
            return None
        if self._possible and not may_fuse(info):
            return None if info.kind == "pretrained" else ClassPrediction(info, ())
        variants = self._constructed.get(info.name) or [self._start.root(info)]
        possible = self._fusers(info)
        results = [_predict(v.module, v.env, possible) for v in variants[:MAX_VARIANTS]]
        # An instance that cannot be made is none to judge by.
        results = [r for r in results if not all(_raised(x) for x in r)] or results
        return ClassPrediction(info, _join_variants(results))

    def _fusers(self, info: ClassInfo) -> frozenset[str]:
        """The fusers to look for."""
        names = self._start.contract.fusers
        allows = parts_of(info).allows
        return frozenset(name for name in names if not self._possible or allows(name))

    def _is_part(self, info: ClassInfo) -> bool:
        """Does a model of the file hold this one?"""
        return any(not variant.is_root for variant in self._constructed.get(info.name, ()))

    def all(self) -> list[ClassPrediction]:
        """The predictions of every class that is not left out."""
        found = [self.of(info) for info in self.file.classes.values()]
        return [prediction for prediction in found if prediction is not None]


def predict_file(
    file: FileIndex,
    contract: Contract,
    given: Mapping[str, Any] | None = None,
    tp: int = 1,
    roots: bool = False,
) -> list[ClassPrediction]:
    """The `Predictions` of every module class that a file defines."""
    return Predictions(file, contract, given, tp, roots).all()


def _is_module(info: ClassInfo) -> bool:
    return info.is_module or any(base.startswith("torch.nn.") for base in info.external_bases)


def _constructions(start: Roots, only: frozenset[str] | None) -> dict[str, list[Variant]]:
    """How the file's classes (or ``only`` some) are constructed, from the model classes down.

    First from the models that vLLM builds; classes that those do not lead to, from the others.
    """
    if only is not None and not only:
        return {}
    follow = _Follow(start.contract, start.file, only)
    built = start.built()
    if not built:
        variants = [start.root(info) for info in start.pretrained]
        parts = {name for variant in variants for name in follow.parts(variant)}
        built = [info for info in start.pretrained if info.name not in parts]
    found = follow.everything([start.root(info) for info in built], frozenset())
    others = [start.root(info) for info in start.pretrained if info.name not in found]
    return follow.everything(others, frozenset(found)) | found


class _Follow:
    """Constructors that were followed, each construction once."""

    def __init__(self, contract: Contract, file: FileIndex, only: frozenset[str] | None) -> None:
        self.contract = contract
        self._file = file
        self._only = only
        self._members: dict[str, list[Module]] = {}
        self._made: dict[str, Made] = {}

    def everything(self, roots: list[Variant], known: frozenset[str]) -> dict[str, list[Variant]]:
        """All constructions that roots lead to, of classes that are not known, by class name."""
        found: dict[str, list[Variant]] = {}
        seen: set[str] = set()
        pending = list(roots)
        while pending:
            variant = pending.pop()
            module = variant.module
            assert module.info is not None
            if not self._leads(module.info):
                continue
            key = f"{_made(module).key}{variant.env.head_size}{variant.env.use_mla}"
            if module.info.name in known or key in seen or len(seen) > MAX_CONSTRUCTIONS:
                continue
            seen.add(key)
            found.setdefault(module.info.name, []).append(variant)
            pending += [Variant(member, variant.env) for member in self.members(module)]
        return found

    def _leads(self, info: ClassInfo) -> bool:
        return self._only is None or (info.file is self._file and info.name in self._only)

    def parts(self, root: Variant) -> set[str]:
        """The models that a model makes for another configuration than its own."""
        own = _configurations(root.module)
        return {
            member.class_name
            for member in self.members(root.module)
            if member.info is not None and member.info.kind == "pretrained"
            if (theirs := _configurations(member)) and not theirs & own
        }

    def members(self, module: Module) -> list[Module]:
        """The modules that a constructor makes, remembered."""
        key = _made(module).key
        if key not in self._members:
            self._members[key] = self._follow(module)
        return self._members[key]

    def _follow(self, module: Module) -> list[Module]:
        """The modules that a constructor makes, under every answer to what cannot be decided."""
        assert module.info is not None
        info = module.info

        def run() -> tuple[Instance, list[Module]]:
            interpreter = Interpreter(self.contract)
            instance = interpreter.instantiate(info, list(module.args), dict(module.kwargs))
            return instance, interpreter.constructed

        results, _ = all_answers(run, MAX_ANSWERS)
        members: dict[str, Module] = {}
        for _, constructed in results:
            for member in constructed:
                made = _made(member)
                member.made = self._made.setdefault(made.key, made)
                members.setdefault(made.key, member)
        if module.made is not None and module.made.comparable and len(results) == 1:
            module.made.instance = results[0][0]  # nothing was asked
        return list(members.values())


def _configurations(module: Module) -> set[int]:
    arguments = (*module.args, *module.kwargs.values())
    return {id(a.values) for a in arguments if isinstance(a, Config)}


def _made(module: Module) -> Made:
    """What it shares with the constructions that cannot be told from it."""
    if module.made is not None:
        return module.made  # type: ignore[no-any-return]
    info = module.info

    def numbers(where: int | str, value: Any) -> bool:
        return type(value) is int and info is not None and only_numbers(info, where)

    return Made(*construction(module, numbers))


def _predict(module: Module, env: Env, possible: Collection[str]) -> list[FusionResult]:
    """Fusers on one construction of a class, over all undecidable conditions."""

    def run() -> dict[str, FusionResult]:
        return outcomes(AstFacts(fresh(module), env.contract), env, possible)

    results, complete = all_answers(run, MAX_ANSWERS)
    # A configuration for which the constructor or the forward raises is not one to judge by.
    results = [r for r in results if not _raises(r)] or results
    names = (*env.contract.fusers, moe.NAME)
    merged = []
    for name in names:
        merged.append(_agree([r[name] for r in results if name in r], name, module, complete))
    return [m for m in merged if m is not None]


def _raises(results: Mapping[str, FusionResult]) -> bool:
    return any(map(_raised, results.values()))


def _raised(result: FusionResult) -> bool:
    return RAISES in result.reason


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
        is_wrong = all(r.wrong for r in results)
        return replace(result, wrong="") if result.wrong and not is_wrong else result
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
                unknown = next((r for r in (known, result) if r.fires is Fires.UNKNOWN), None)
                reason = unknown.reason if unknown else "instances of this class differ"
                joined[result.fuser] = replace(known, fires=Fires.UNKNOWN, reason=reason)
    return tuple(joined.values())
