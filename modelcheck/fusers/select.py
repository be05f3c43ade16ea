"""Which fusers a module takes: vLLM's order of trial, one redefining fuser, validation.

Contract section 2.1. Structure is matched once for all modules with the same class and child
names, on the first of them, as vLLM does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from modelcheck.findings import Span
from modelcheck.fusers import attention, glu, merged_column, mla, moe, packed_qkv, qkv, rms_norm
from modelcheck.fusers.facts import Facts
from modelcheck.fusers.match import Env, Match, NoMatch, Undecided
from modelcheck.fusers.results import Fires, FusionResult
from modelcheck.graph.core import Graph

OUTRANKED = "a better fuser takes the module"
Matcher = Callable[[Graph, Facts, Env], Match]
Check = Callable[[Match, Facts, Env], None]


@dataclass(frozen=True)
class Fuser:
    """One of vLLM's fusers: how it matches, whether it rewrites source, how it validates."""

    name: str
    match: Matcher
    validate: Check
    check_source: Check | None = None


GRAPH_FUSERS = {
    "MLA": Fuser("MLA", mla.match, mla.validate, mla.check_source),
    "GLU": Fuser("GLU", glu.match, glu.validate, glu.check_source),
    "QKV": Fuser("QKV", qkv.match, qkv.validate, qkv.check_source),
    "PackedQKV": Fuser("PackedQKV", packed_qkv.match, packed_qkv.validate, packed_qkv.check_source),
    "MergedColumnParallel": Fuser(
        "MergedColumnParallel",
        merged_column.match,
        merged_column.validate,
        merged_column.check_source,
    ),
    "RMSNorm": Fuser("RMSNorm", rms_norm.match, rms_norm.validate),
}


@dataclass(frozen=True)
class Candidate:
    """A structural match and the fuser that made it."""

    match: Match
    validate: Check


@dataclass(frozen=True)
class Candidates:
    """What matched one class, and what did not, with the reasons."""

    kept: tuple[Candidate, ...]
    missed: tuple[FusionResult, ...]


def is_traced(facts: Facts) -> bool:
    """vLLM traces a module with two or more direct Linears, or with no children at all."""
    linears = sum(facts.child(name).is_linear for name in facts.child_names)
    return linears >= 2 or not facts.child_names


def candidates(facts: Facts, env: Env, possible: Collection[str] | None = None) -> Candidates:
    """All structural matches of a class, in vLLM's order.

    ``possible`` leaves out fusers of which it is known that none can match.
    """
    kept: list[Candidate] = []
    missed: list[FusionResult] = []
    names = [n for n in env.contract.fusers if possible is None or n in possible]
    needed = any(name != attention.NAME for name in names)
    graph = facts.graph() if needed and is_traced(facts) else None
    for name in names:
        try:
            if name == attention.NAME:
                kept.append(Candidate(attention.match(facts, env), attention.validate))
            elif graph is not None:
                fuser = GRAPH_FUSERS[name]
                match = _match(fuser, graph, facts, env)
                if fuser.check_source is not None:
                    fuser.check_source(match, facts, env)
                kept.append(Candidate(match, fuser.validate))
                if env.contract.one_fuser_per_class:
                    break
        except NoMatch as error:
            missed.append(_missed(name, facts, error, graph))
        except Undecided as error:
            missed.append(_result(name, Fires.UNKNOWN, facts, error.reason, error.line))
    return Candidates(tuple(kept), tuple(missed))


def _match(fuser: Fuser, graph: Graph, facts: Facts, env: Env) -> Match:
    """A structural match, or `Undecided` where the graph is doubtful in what it rests on."""
    if not graph.doubt:
        return fuser.match(graph, facts, env)
    undecided = Undecided(graph.doubt, graph.doubt_line)
    try:
        match = fuser.match(graph, facts, env)
    except NoMatch as error:
        is_norm = fuser.name == rms_norm.NAME
        if error.certain or (not is_norm and _all_linears_seen(graph, facts)):
            raise
        if is_norm and graph.structure_known and not _has_norm_operations(graph):
            raise
        raise undecided from None
    nodes = graph.nodes
    if match.anchor is None or nodes.index(match.anchor) >= graph.doubt_at:
        raise undecided
    return match


def _all_linears_seen(graph: Graph, facts: Facts) -> bool:
    """Are there no two Linears, or were all but the output projection called before the doubt?"""
    linears = {name for name in facts.child_names if facts.child(name).is_linear}
    called = {n.target for n in graph.nodes[: graph.doubt_at] if n.op == "call_module"}
    return len(linears) < 2 or len(linears - called) <= 1


def _has_norm_operations(graph: Graph) -> bool:
    """Whatever the plain values are: is there a root, or a norm of torch's?"""
    targets = {node.target.rpartition(".")[2] for node in graph}
    return bool(targets & {"rsqrt", "sqrt", "pow", "rms_norm", "unknown"})


def takes_rms_norm(facts: Facts, env: Env) -> bool:
    """Is one of a class's matches the RMSNorm fuser?"""
    return any(c.match.fuser == rms_norm.NAME for c in candidates(facts, env).kept)


def choose(
    found: Candidates, facts: Facts, env: Env
) -> tuple[list[FusionResult], list[FusionResult]]:
    """The fusers one instance takes, and those that matched its class but not this instance."""
    chosen: list[FusionResult] = []
    refused: list[FusionResult] = []
    redefined: str | None = None
    for candidate in found.kept:
        match = candidate.match
        if redefined and match.fuser != attention.NAME:
            continue
        try:
            candidate.validate(match, facts, env)
        except NoMatch as error:
            refused.append(_missed(match.fuser, facts, error, None))
            continue
        except Undecided as error:
            refused.append(_result(match.fuser, Fires.UNKNOWN, facts, error.reason, match.line))
            continue
        if match.fuser != attention.NAME:
            redefined = match.fuser
        chosen.append(fired(match, facts))
    return chosen, refused


def outcomes(
    facts: Facts, env: Env, possible: Collection[str] | None = None
) -> dict[str, FusionResult]:
    """A result for every fuser (of those that are possible), and for the MoE block, if one is."""
    try:
        found = candidates(facts, env, possible)
        chosen, refused = choose(found, facts, env)
    except (Undecided, RecursionError) as error:
        reason = getattr(error, "reason", "it is nested too deeply")
        names = env.contract.fusers if possible is None else possible
        return {name: _result(name, Fires.UNKNOWN, facts, reason, None) for name in names}
    results = {result.fuser: result for result in (*found.missed, *refused)}
    for candidate in found.kept:
        name = candidate.match.fuser
        if name not in results:
            results[name] = _result(name, Fires.NO, facts, OUTRANKED, candidate.match.line)
    results |= {result.fuser: result for result in chosen}
    try:
        if moe.has_replaceable_experts(facts):
            results[moe.NAME] = moe.match_block(facts, env)
    except Undecided as error:
        results[moe.NAME] = _result(moe.NAME, Fires.UNKNOWN, facts, error.reason, error.line)
    return results


def fired(match: Match, facts: Facts) -> FusionResult:
    """The result of a match that applies."""
    details = dict(match.details)
    if match.output:
        details["output"] = match.output
    return FusionResult(
        fuser=match.fuser,
        fires=Fires.YES,
        class_name=facts.class_name,
        becomes=match.becomes,
        shards=match.shards,
        span=Span(match.line) if match.line else None,
        details=tuple(sorted(details.items())),
        wrong=match.wrong or _wrong(match, facts),
        rows=_rows(match, facts),
        merged=match.merged,
    )


def _wrong(match: Match, facts: Facts) -> str:
    """Faults of a merge that only the instance's own sizes and biases show."""
    if match.fuser == mla.NAME and len(match.linears) == 2:
        query, latent = (facts.child(name) for name in match.linears)
        if latent.has_bias and not query.has_bias:
            return f"only {match.linears[1]} has a bias: the merged projection drops it"
    if match.fuser == glu.NAME:
        gate, up = (facts.child(name) for name in match.linears)
        if gate.out_features != up.out_features:
            return "gate and up differ in size: the fused kernel halves their sum"
    return ""


def _rows(match: Match, facts: Facts) -> tuple[int, ...]:
    """Rows of the merged projections' weights, as far as they are numbers."""
    sizes = match.sizes and (match.sizes[0], match.sizes[1], match.sizes[1])
    rows = sizes or tuple(facts.child(name).out_features for name in match.linears)
    return rows if all(isinstance(row, int) for row in rows) else ()


def _missed(name: str, facts: Facts, error: NoMatch, graph: Graph | None) -> FusionResult:
    reason, line = error.reason, error.line
    if graph is not None and graph.stopped and not error.near and name != "RMSNorm":
        reason = f"{reason}; the trace stops: {graph.stopped}"
        line = line or graph.stopped_line
    details: tuple[tuple[str, str], ...] = (("near", "yes"),) if error.near else ()
    if error.kind:
        details = (("kind", error.kind), *details)
    return _result(name, Fires.NO, facts, reason, line, details)


def _result(
    name: str,
    fires: Fires,
    facts: Facts,
    reason: str,
    line: int | None,
    details: tuple[tuple[str, str], ...] = (),
) -> FusionResult:
    return FusionResult(
        fuser=name,
        fires=fires,
        class_name=facts.class_name,
        reason=reason,
        span=Span(line) if line else None,
        details=details,
    )
