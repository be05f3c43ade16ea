"""The fix loop: what it applies, defers, undoes, and what it writes."""

from __future__ import annotations

import codecs
import re
import subprocess
import sys
import types
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from modelcheck import fixing
from modelcheck.errors import UnreadableFile
from modelcheck.findings import Finding, Fix, Safety, Severity, Span

PATH = "modeling_tiny.py"
MLP = """import torch.nn.functional as F
from torch import nn
from transformers import PreTrainedModel


class {name}(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(8, 16)
        self.up = nn.Linear(8, 16)

    def forward(self, x):
        gate = self.gate(x)
        gate = F.silu(gate)
        return gate * self.up(x)
"""
TWO = MLP.format(name="A") + "\n\n" + MLP.format(name="B").partition("PreTrainedModel\n\n\n")[2]


def finding(
    text: str, at: int, code: str, fixer: str, safety: Safety = Safety.SAFE, name: str = ""
) -> Finding:
    line = text.count("\n", 0, at) + 1
    column = at - (text.rfind("\n", 0, at) + 1) + 1
    owner = name or re.findall(r"class (\w+)", text[:at])[-1]
    fix = Fix(fixer, "Fix it", safety)
    span = Span(line, column, line, column + 1)
    return Finding(code, Severity.SLOW, PATH, span, owner, f"{code} is here", "Fix it.", fix)


def lint_mlp(text: str) -> Sequence[Finding]:
    """Two small rules that work on text: a functional activation and a split GLU."""
    found = [
        finding(text, match.start(), "MC601", "functional_activation")
        for match in re.finditer(r"F\.silu\(", text)
    ]
    return found + [
        finding(text, match.start(), "MC602", "inline_glu")
        for match in re.finditer(r"gate \* self\.up", text)
    ]


def test_runs_until_nothing_is_left() -> None:
    outcome = fixing.fix_text(PATH, TWO, lint_mlp)
    assert outcome.applied == {"MC601": 2, "MC602": 2}
    assert (outcome.refused, outcome.failed, outcome.remaining) == ((), (), ())
    assert outcome.text.count("from transformers.activations import ACT2FN\n") == 1
    assert outcome.text.count("return self.act_fn(self.gate(x)) * self.up(x)\n") == 2
    assert fixing.fix_text(PATH, outcome.text, lint_mlp).text == outcome.text


def test_names_what_is_refused_and_counts_what_is_left() -> None:
    text = TWO.replace("super().__init__()\n", "super().__init__()\n        return\n", 1)
    outcome = fixing.fix_text(PATH, text, lint_mlp)
    assert outcome.applied == {"MC601": 1, "MC602": 2}
    assert [(u.code, u.class_name, u.reason) for u in outcome.refused] == [
        ("MC601", "A", "__init__ returns before its end")
    ]
    assert [f.class_name for f in outcome.remaining] == ["A"]


def test_unsafe_and_display_fixes_need_leave() -> None:
    def lint(text: str) -> Sequence[Finding]:
        safety = Safety.DISPLAY if "B" in text else Safety.UNSAFE
        return [
            finding(text, match.start(), "MC601", "functional_activation", safety)
            for match in re.finditer(r"F\.silu\(", text)
        ]

    text = MLP.format(name="A")
    assert fixing.fix_text(PATH, text, lint).applied == {}
    assert fixing.fix_text(PATH, text, lint, unsafe=True).applied == {"MC601": 1}
    shown = MLP.format(name="B")
    assert fixing.fix_text(PATH, shown, lint, unsafe=True).text == shown


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Callable[[str], str]], None]:
    """Plant a fixer of our own, to see what the loop does with a bad one."""

    def plant(stem: str, function: Callable[[str], str]) -> None:
        module = types.ModuleType(f"fixers.{stem}")
        module.fix = lambda text, finding: function(text)  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, f"fixers.{stem}", module)

    return plant


def lint_words(*fixers: str) -> fixing.Lint:
    """Every word ``bad_<fixer>`` is a finding of that fixer."""

    def lint(text: str) -> Sequence[Finding]:
        return [
            finding(text, match.start(), "MC900", match[1], name="A")
            for match in re.finditer(r"bad_(\w+)", text)
            if match[1] in fixers
        ]

    return lint


Plant = Callable[[str, Callable[[str], str]], None]


def test_a_fix_that_breaks_the_file_is_undone_and_named(planted: Plant) -> None:
    planted("breaks", lambda text: text.replace("bad_breaks", "(("))
    planted("works", lambda text: text.replace("bad_works", "good"))
    text = "x = bad_breaks\ny = 1\nz = bad_works\n"
    outcome = fixing.fix_text(PATH, text, lint_words("breaks", "works"))
    assert outcome.text == "x = bad_breaks\ny = 1\nz = good\n"
    assert outcome.applied == {"MC900": 1}
    assert [str(u) for u in outcome.failed] == [
        "1: MC900 A: the fix leaves the file unparsable (syntax error: '(' was never closed)"
    ]
    assert len(outcome.remaining) == 1


def test_a_fix_that_leaves_its_finding_is_undone_and_named(planted: Plant) -> None:
    planted("moves", lambda text: "# a line above\n" + text)
    planted("works", lambda text: text.replace("bad_works", "good"))
    text = "x = bad_moves\ny = 1\nz = bad_works\n"
    outcome = fixing.fix_text(PATH, text, lint_words("moves", "works"))
    assert outcome.text == "x = bad_moves\ny = 1\nz = good\n"
    assert [u.reason for u in outcome.failed] == ["the fix did not remove the finding"]
    assert outcome.applied == {"MC900": 1}


def test_a_fixer_that_fails_costs_only_its_own_fix(planted: Plant) -> None:
    def crash(text: str) -> str:
        raise KeyError("x")

    planted("crashes", crash)
    planted("works", lambda text: text.replace("bad_works", "good"))
    outcome = fixing.fix_text(PATH, "x = bad_crashes, bad_works\n", lint_words("crashes", "works"))
    assert outcome.text == "x = bad_crashes, good\n"
    assert [u.reason for u in outcome.failed] == ["the fixer failed (KeyError: 'x')"]


def test_overlapping_fixes_wait_for_the_next_pass(planted: Plant) -> None:
    seen: list[str] = []

    def fix_one(text: str) -> str:
        seen.append(text)
        return text.replace("bad_one", "good", 1)

    planted("one", fix_one)
    outcome = fixing.fix_text(PATH, "x = bad_one, bad_one\n", lint_words("one"))
    assert outcome.text == "x = good, good\n"
    assert outcome.applied == {"MC900": 2}
    assert "x = good, bad_one\n" in seen


def test_a_fix_that_never_ends_is_stopped(planted: Plant) -> None:
    planted("grows", lambda text: text.replace("bad_grows", "other\nx = bad_grows", 1))

    def lint(text: str) -> Sequence[Finding]:
        at = text.index("bad_grows")
        fix = Fix("grows", f"at {text.count(chr(10))}")
        return [Finding("MC900", Severity.INFO, PATH, Span(1), "A", str(at), "a", fix)]

    outcome = fixing.fix_text(PATH, "x = bad_grows\n", lint)
    assert outcome.applied == {"MC900": fixing.MAX_PASSES}
    assert len(outcome.remaining) == 1


def test_an_unknown_fixer_is_refused() -> None:
    outcome = fixing.fix_text(PATH, "x = bad_nothing\n", lint_words("nothing"))
    assert [u.reason for u in outcome.refused] == ["there is no fixer named nothing"]


def test_a_generated_file_is_never_edited() -> None:
    text = (
        "#   This file was automatically generated from src/models/tiny/modular_tiny.py.\n"
        + MLP.format(name="A")
    )
    outcome = fixing.fix_text(PATH, text, lint_mlp)
    assert outcome.text == text
    assert len(outcome.remaining) == 2
    assert fixing.generated_from("modular_tiny.py", text) == ""


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("bom", [b"", codecs.BOM_UTF8])
@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_a_file_keeps_its_encoding(tmp_path: Path, end: str, bom: bytes, encoding: str) -> None:
    if bom and encoding != "utf-8":
        pytest.skip("such a file is not valid Python")
    header = f"# -*- coding: {encoding} -*-\n# été\n"
    data = bom + (header + MLP.format(name="A")).replace("\n", end).encode(encoding)
    path = tmp_path / PATH
    path.write_bytes(data)
    path.chmod(0o640)

    dry = fixing.fix_file(str(path), lint_mlp, write=False)
    assert dry.changed and path.read_bytes() == data
    fixed = fixing.fix_file(str(path), lint_mlp)
    new = path.read_bytes()
    assert new.startswith(bom + header.replace("\n", end).encode(encoding))
    assert new.count(b"\n") == new.count(end.encode())
    assert new.decode(encoding).count("été") == 1
    assert path.stat().st_mode & 0o777 == 0o640
    assert fixed.outcome.applied == {"MC601": 1, "MC602": 1}
    assert [p.name for p in tmp_path.iterdir()] == [PATH]


def test_a_file_without_fixes_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / PATH
    path.write_text("x = 1\n")
    before = path.stat().st_mtime_ns
    assert not fixing.fix_file(str(path), lint_mlp).changed
    assert path.stat().st_mtime_ns == before


def test_a_configuration_is_fixed_as_json(tmp_path: Path) -> None:
    def lint(text: str) -> Sequence[Finding]:
        if "AutoModel" in text:
            return []
        fix = Fix("auto_map", "Add it", data={"key": "AutoModel", "value": "modeling_x.X"})
        return [Finding("MC305", Severity.ERROR, "config.json", Span(1), "", "m", "a", fix)]

    path = tmp_path / "config.json"
    path.write_bytes(codecs.BOM_UTF8 + b'{\r\n  "model_type": "x"\r\n}\r\n')
    assert fixing.fix_file(str(path), lint).outcome.applied == {"MC305": 1}
    assert path.read_bytes() == codecs.BOM_UTF8 + (
        b'{\r\n  "auto_map": {\r\n    "AutoModel": "modeling_x.X"\r\n  },\r\n'
        b'  "model_type": "x"\r\n}\r\n'
    )
    path.write_text("{")
    with pytest.raises(UnreadableFile, match="not valid JSON"):
        fixing.fix_file(str(path), lint)


def test_the_diff_is_one_that_patch_takes(tmp_path: Path) -> None:
    path = tmp_path / PATH
    old = MLP.format(name="A").rstrip("\n")  # no line end at the end of the file
    path.write_text(old)
    result = fixing.fix_file(str(path), lint_mlp, write=False)
    diff = fixing.unified_diff(PATH, old, result.outcome.text)
    assert diff.startswith(f"--- a/{PATH}\n+++ b/{PATH}\n@@ ")
    assert result.diff.count("\n") == diff.count("\n")
    (tmp_path / "fix.patch").write_text(diff)
    subprocess.run(["git", "apply", "fix.patch"], cwd=tmp_path, check=True)
    assert path.read_text() == result.outcome.text
    assert fixing.unified_diff(PATH, old, old) == ""


def test_libcst_is_loaded_only_for_a_fix() -> None:
    script = (
        "import sys; from modelcheck.fixing import fix_text;"
        "fix_text('modeling_x.py', 'x = 1', lambda text: []);"
        "sys.exit('libcst' in sys.modules or 'fixers' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True, cwd=Path(__file__).parents[1])
