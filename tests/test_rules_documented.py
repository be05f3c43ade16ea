"""Every rule's documentation is complete and true: its examples are run."""

import json
import re
import runpy
from pathlib import Path

import pytest
from click.testing import CliRunner

from modelcheck.cli.explain import explain
from modelcheck.cli.rules import rules as rules_command
from modelcheck.findings import Severity
from modelcheck.fusers.contract import contract_for
from modelcheck.report.catalogue import FAMILIES, facts
from modelcheck.rules.base import HEADINGS, Rule, all_rules
from modelcheck.scan import Scanner

BLOCK = re.compile(r"```(python|json)\n(.*?)```", re.DOTALL)
rules = pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.code)


def findings_of(section, tmp_path):
    """What the section's code gives, for the release that the section names."""
    language, code = BLOCK.search(section).groups()
    release = re.search(r"vLLM (\d+\.\d+)", BLOCK.sub("", section))
    path = tmp_path / ("config.json" if language == "json" else "modeling_example.py")
    path.write_text(code)
    contract = contract_for(release[1] if release else None)
    return Scanner(contract).scan([str(path)]).findings


def test_codes_are_unique():
    codes = [rule.code for rule in all_rules()]
    assert len(set(codes)) == len(codes) > 20


@rules
def test_sections(rule: Rule):
    assert rule.summary.endswith(".")
    assert tuple(rule.sections) == HEADINGS
    assert all(rule.sections.values())


@rules
def test_the_example_fires_its_own_rule_and_no_other(rule: Rule, tmp_path):
    assert {f.code for f in findings_of(rule.sections["Example"], tmp_path)} == {rule.code}


@rules
def test_the_repaired_example_is_clean(rule: Rule, tmp_path):
    found = findings_of(rule.sections["Use instead"], tmp_path)
    assert [f for f in found if f.severity is not Severity.INFO or f.code == rule.code] == []


@rules
def test_explain_prints_it(rule: Rule):
    for name in (rule.code, rule.code.lower(), rule.name):
        result = CliRunner().invoke(explain, [name])
        assert result.exit_code == 0
        assert rule.sections["Why it matters"] in result.output


@rules
def test_what_the_tables_say_of_it_is_so(rule: Rule, tmp_path):
    known = facts(rule)
    assert known.severities
    found = findings_of(rule.sections["Example"], tmp_path)
    for finding in [f for f in found if f.code == rule.code]:
        assert finding.severity in known.severities
        assert finding.fix is None or finding.fix.safety in known.fixes


def test_the_list_of_rules():
    result = CliRunner().invoke(rules_command, ["--json"])
    data = json.loads(result.output)["rules"]
    assert [row["code"] for row in data] == [rule.code for rule in all_rules()]
    assert {row["family"] for row in data} <= set(FAMILIES.values())
    kwargs = next(row for row in data if row["code"] == "MC201")
    assert (kwargs["severities"], kwargs["fixes"]) == (["error", "info"], ["safe"])
    table = CliRunner().invoke(rules_command).output
    for row in data:
        assert f"  {row['code']}  {row['name']} " in f"{table} "


def test_the_generated_docs_are_fresh():
    path = Path(__file__).resolve().parent.parent / "docs" / "generate.py"
    generate = runpy.run_path(str(path))
    assert generate["stale"]() == [], "run `make docs`"


def test_json_examples_are_json():
    for rule in all_rules():
        for section in rule.sections.values():
            for language, code in BLOCK.findall(section):
                if language == "json":
                    json.loads(code)
