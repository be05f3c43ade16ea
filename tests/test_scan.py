"""The library engine: contexts, suppressions, generated files, selection."""

import shutil
from pathlib import Path

import pytest

from modelcheck.errors import UsageError
from modelcheck.scan import Scanner, Selection

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"
BAD = FIXTURES / "rules" / "no_base_model" / "modeling_bad.py"
HEADER = "class GinkgoForCausalLM(GinkgoPreTrainedModel, GenerationMixin):"


def scan(*paths, **selection):
    return Scanner(selection=Selection(**selection)).scan([str(path) for path in paths])


def codes(result):
    return [finding.code for finding in result.findings]


@pytest.fixture
def edited(tmp_path):
    """The bad file with one replacement."""

    def edit(old, new):
        path = tmp_path / "modeling_x.py"
        text = BAD.read_text()
        assert old in text
        path.write_text(text.replace(old, new))
        return scan(path)

    return edit


def test_findings_are_sorted_and_name_the_file_as_the_user_did(tmp_path, monkeypatch):
    shutil.copytree(FIXTURES / "demo", tmp_path / "repo")
    monkeypatch.chdir(tmp_path)
    result = scan("repo")
    assert list(result.findings) == sorted(result.findings, key=lambda f: f.sort_key)
    assert {f.path for f in result.findings} == {"repo/config.json", "repo/modeling_fen.py"}
    assert result.files == 3


def test_config_json_beside_a_named_file_is_checked(tmp_path):
    shutil.copytree(FIXTURES / "demo", tmp_path / "repo")
    assert "MC306" in codes(scan(tmp_path / "repo" / "modeling_fen.py"))
    assert codes(scan(tmp_path / "repo" / "config.json")) == ["MC306"]


def test_a_comment_on_the_class_header_silences_the_class(edited):
    assert codes(edited(HEADER, f"{HEADER}  # modelcheck: ignore[MC307]")) == []


def test_a_comment_of_another_code_does_not_and_is_reported(edited):
    found = codes(edited(HEADER, f"{HEADER}  # modelcheck: ignore[MC801]"))
    assert sorted(found) == ["MC001", "MC307"]


def test_a_comment_for_the_file(edited):
    assert codes(edited("import torch\n", "import torch  # modelcheck: ignore-file[mc307]\n")) == []


def test_a_comment_on_a_line_silences_that_line_only(tmp_path):
    path = tmp_path / "modeling_x.py"
    bad = FIXTURES / "rules" / "meta_unsafe_init" / "modeling_bad.py"
    line = "config.num_hidden_layers)]\n        self.layers"
    text = bad.read_text()
    assert line in text
    path.write_text(text.replace(line, line.replace(")]", ")]  # modelcheck: ignore[MC901]")))
    assert codes(scan(path)) == []
    path.write_text("import torch  # modelcheck: ignore[MC901]\n" + text)
    assert sorted(codes(scan(path))) == ["MC001", "MC901"]


def test_text_that_only_looks_like_a_comment_silences_nothing(edited):
    quoted = f'"""{HEADER}  # modelcheck: ignore-file[MC307]"""\n{HEADER}'
    assert codes(edited(HEADER, quoted)) == ["MC307"]


def test_an_unused_suppression_is_silent_when_its_rule_did_not_run(tmp_path):
    path = tmp_path / "modeling_x.py"
    path.write_text("x = 1  # modelcheck: ignore[MC307]\n")
    assert codes(scan(path)) == ["MC001"]
    assert codes(scan(path, ignore=("MC307",))) == []


def test_a_generated_file_is_reported_without_a_fix(tmp_path):
    notice = "# This file was automatically generated from src/modular_fen.py.\n"
    for name in ("config.json", "configuration_fen.py"):
        shutil.copy(FIXTURES / "demo" / name, tmp_path)
    source = (FIXTURES / "demo" / "modeling_fen.py").read_text()
    (tmp_path / "modeling_fen.py").write_text(notice + source)
    found = [f for f in scan(tmp_path).findings if f.path.endswith("modeling_fen.py")]
    assert found
    assert all(f.fix is None and "modular_fen.py" in f.advice for f in found)


def test_selection():
    everything = Selection().rules
    attention = Selection(select=("MC1",)).rules
    assert {rule.family for rule in attention} == {"attention"}
    assert len(Selection(ignore=("mc1",)).rules) == len(everything) - len(attention)
    mixed = Selection(select=("MC1",), extend=("no-base-model",), ignore=("MC101",)).rules
    assert {r.code for r in mixed} == {r.code for r in attention} - {"MC101"} | {"MC307"}
    with pytest.raises(UsageError, match="did you mean"):
        _ = Selection(select=("no-base-modle",)).rules


def test_a_fix_is_not_offered_where_other_attention_findings_stand(tmp_path):
    shutil.copytree(FIXTURES / "demo", tmp_path / "repo")
    scanner = Scanner()
    path = str(tmp_path / "repo" / "modeling_fen.py")
    flag = [f for f in scanner.check(path) if f.code == "MC301"]
    assert flag[0].fix is None
