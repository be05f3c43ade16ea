"""Every fixer on every fixture: the exact text, what stays, and the same numbers."""

from __future__ import annotations

import ast
import difflib
import re
from pathlib import Path
from typing import Any

import pytest

import fixers


def _fix(case: Any, text: str) -> str:
    return fixers.load(case.stem).fix(text, case.finding(text))


def test_gives_the_expected_text(before: Any) -> None:
    assert _fix(before, before.text) == before.expected


def test_is_valid_python_and_changes_something(before: Any) -> None:
    ast.parse(before.expected)
    assert before.expected != before.text


def test_is_done_after_one_run(before: Any) -> None:
    try:
        again = _fix(before, before.expected)
    except fixers.FixRefused:
        return
    assert again == before.expected


def test_keeps_windows_line_ends(before: Any) -> None:
    fixed = _fix(before, before.text.replace("\n", "\r\n"))
    assert fixed == before.expected.replace("\n", "\r\n")


def test_touches_only_the_class_and_the_imports(before: Any) -> None:
    fixed = _fix(before, before.text)
    tree = ast.parse(before.text)
    allowed = set()
    for node in tree.body:
        named = getattr(node, "name", "") == before.finding().class_name
        if named or isinstance(node, ast.Import | ast.ImportFrom) or _goes_along(before, node):
            allowed |= set(range(node.lineno, (node.end_lineno or node.lineno) + 2))
    old, new = before.text.split("\n"), fixed.split("\n")
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for tag, first, last, _, _ in matcher.get_opcodes():
        if tag != "equal":
            assert set(range(first + 1, max(last, first + 1) + 1)) <= allowed


def _goes_along(case: Any, node: ast.stmt) -> bool:
    """The eager function is widened with the interface call, a caller's arguments with forward."""
    kinds = {
        "thread_kwargs": ast.FunctionDef,
        "one_input": ast.ClassDef,
        "cross_attention_class": ast.ClassDef,
    }
    return isinstance(node, kinds.get(case.stem, ()))


def test_keeps_every_comment(before: Any) -> None:
    def comments(text: str) -> list[str]:
        return sorted(re.findall(r"#.*", text))

    assert comments(_fix(before, before.text)) == comments(before.text)


def test_computes_the_same(before: Any) -> None:
    torch = pytest.importorskip("torch")
    if "def build" not in before.text:
        pytest.skip("the fixture is no model that runs")
    results = []
    old_dtype = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        for text in (before.text, _fix(before, before.text)):
            # A norm's cast to float32 would hide what the rewrite changes.
            text = text.replace("torch.float32", "torch.float64").replace(".float()", ".double()")
            names: dict[str, Any] = {"__name__": "modeling_tiny"}
            exec(compile(text, "modeling_tiny.py", "exec"), names)
            torch.manual_seed(0)
            results.append(names["build"]())
        (old, inputs), (new, _) = results
        assert list(old.state_dict()) == list(new.state_dict())
        new.load_state_dict(old.state_dict(), strict=True)
        for module in (old, new):
            module.train()  # no dropout here; in-place writes would show
        expected, actual = (_output(module, inputs) for module in (old, new))
    finally:
        torch.set_default_dtype(old_dtype)
    assert expected.abs().max() > 0
    torch.testing.assert_close(actual, expected, rtol=1e-12, atol=1e-14)


def _output(module: Any, inputs: Any) -> Any:
    """The tensor that a module returns: its logits, if it is a whole model."""
    result = module(*[tensor.clone() for tensor in inputs])
    return getattr(result, "logits", result)


def test_refuses_with_a_reason(refused: Any) -> None:
    with pytest.raises(fixers.FixRefused) as caught:
        _fix(refused, refused.text)
    assert caught.value.reason.startswith(refused.reason)
    assert "\n" not in caught.value.reason


def test_every_fixer_has_numeric_evidence() -> None:
    """A pair that runs, for each fixer that rewrites code."""
    folders = list((Path(__file__).parents[2] / "fixtures" / "fixers").iterdir())
    assert folders
    for folder in folders:
        runs = [p for p in folder.glob("*_before.py") if "def build" in p.read_text()]
        assert runs or folder.name == "attention_flag", folder.name
