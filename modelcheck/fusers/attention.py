"""Attention: a module that calls the attention interface in the one recognised form.

Purely syntactic; since vLLM 0.30 (contract section 2.12).
"""

from __future__ import annotations

import ast

from modelcheck.fusers.facts import Facts
from modelcheck.fusers.match import Env, Match, NoMatch
from modelcheck.source.bodies import body_of
from modelcheck.source.memory import remembered

NAME = "Attention"
INTERFACE = "ALL_ATTENTION_FUNCTIONS"
IMPLEMENTATIONS = ("vllm", "vllm_mla")


def match(facts: Facts, env: Env) -> Match:
    """The forward binds a local from the interface and calls it exactly once."""
    source = facts.source
    if source is None:
        raise NoMatch("the source of forward is not available")
    calls = interface_calls(source.function)
    if len(calls) != 1:
        raise NoMatch(
            "forward does not call the attention interface"
            if not calls
            else f"forward calls the attention interface {len(calls)} times",
            source.line(calls[1]) if calls else None,
            near=bool(calls),
        )
    call = calls[0]
    details = [
        (name, ast.unparse(values[0]))
        for name in ("s_aux", "scaling")
        if len(values := [k.value for k in call.keywords if k.arg == name]) == 1
    ]
    return Match(
        fuser=NAME, becomes="attention interface", details=tuple(details), line=source.line(call)
    )


@remembered(maxsize=1024)
def interface_calls(function: ast.AST) -> tuple[ast.Call, ...]:
    """Calls through local names that were assigned from the interface."""
    names: set[str] = set()
    nodes = body_of(function)
    assignments: list[ast.Assign | ast.AnnAssign] = [
        *nodes.some(ast.Assign),
        *nodes.some(ast.AnnAssign),
    ]
    for node in assignments:
        if _is_lookup(node.value):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {t.id for t in targets if isinstance(t, ast.Name)}
    if not names:
        return ()
    return tuple(
        node
        for node in nodes.some(ast.Call)
        if isinstance(node.func, ast.Name) and node.func.id in names
    )


def _is_lookup(node: ast.expr | None) -> bool:
    """``ALL_ATTENTION_FUNCTIONS.x(...)``, ``.x`` or ``[...]``."""
    if isinstance(node, ast.Call):
        node = node.func
    return (
        isinstance(node, ast.Attribute | ast.Subscript)
        and isinstance(node.value, ast.Name)
        and node.value.id == INTERFACE
    )


def validate(match: Match, facts: Facts, env: Env) -> None:
    """Does the instance's own config dispatch to vLLM?"""
    config = facts.attribute("config")
    implementation = getattr(config, "_attn_implementation", None)
    if implementation not in IMPLEMENTATIONS:
        raise NoMatch(
            "the module has no self.config"
            if config is None
            else "its config is not the text config that vLLM switches to its own attention",
            match.line,
            near=config is None,
        )
