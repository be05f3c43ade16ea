"""The page: one well-formed file that loads nothing, with all of the survey in it."""

import json
import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from modelcheck.fusers.results import Evidence
from modelcheck.report.survey_html import document, page

VOID = {"meta", "input", "br", "link", "img"}
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


class Checker(HTMLParser):
    """Every element is closed where it should be; keeps the embedded data and outside addresses."""

    def __init__(self):
        super().__init__()
        self.stack, self.faults, self.outside, self.data = [], [], [], ""

    def handle_starttag(self, tag, attributes):
        if tag not in VOID:
            self.stack.append((tag, dict(attributes)))
        for name, value in attributes:
            if name in ("src", "href", "srcset", "data"):
                self.outside.append(value)

    def handle_endtag(self, tag):
        if not self.stack or self.stack.pop()[0] != tag:
            self.faults.append((tag, self.getpos()))

    def handle_data(self, data):
        if self.stack and self.stack[-1][1].get("id") == "data":
            self.data += data


def checked(text):
    checker = Checker()
    checker.feed(text)
    checker.close()
    return checker


@pytest.fixture
def both(plan):
    return replace(plan, evidence=(Evidence.PREDICTED, Evidence.TRACED))


def test_well_formed_and_of_one_piece(records, both):
    text = page(records, both)
    checker = checked(text)
    assert checker.faults == []
    assert checker.stack == []
    assert checker.outside == []
    assert "@import" not in text
    assert "url(" not in text
    assert text.startswith("<!DOCTYPE html>")


def test_the_data_is_whole_whatever_is_in_a_reason(records, both):
    text = page(records, both)
    data = json.loads(checked(text).data)
    assert data == json.loads(json.dumps(document(records, both)))
    assert "</script><b>&'\" written between" in data["texts"]
    assert text.count("</script>") == 2


def test_every_type_evidence_class_and_reason_is_there(records, both):
    data = document(records, both)
    types = dict(data["types"])
    assert set(types) == {t.name for t in both.types}
    assert types["gone"]["predicted"] == ["no modeling file has the class GoneModel", [], []]
    [[place, count, path]] = types["one"]["traced"][1]
    assert (count, path) == (1, "layers.0.attn")
    name, file, line, _, [[fuser, fires, text, blamed, source]] = data["classes"][place]
    assert (name, line, fires, blamed) == ("OneAttention", 6, "no", 4)
    assert data["texts"][file] == "models/one/modeling_one.py"
    assert data["fusers"][fuser] == "QKV"
    assert "written between" in data["texts"][text]
    assert data["texts"][source] == "x = <y>"


def test_a_development_version_has_no_links(records, both):
    catalogue = replace(both.catalogue, version="5.20.0.dev0")
    assert document(records, replace(both, catalogue=catalogue))["repository"] == ""
    assert document(records, both)["repository"].endswith("/v5.19.0/src/transformers/")


def test_template_uses_no_other_placeholder():
    template = Path(__file__).parents[2] / "modelcheck" / "report" / "survey.html"
    assert re.findall(r"\$\w*", template.read_text()) == ["$data"]


def test_the_template_is_part_of_the_package():
    root = Path(__file__).parents[2]
    assert "include modelcheck/report/*.html" in (root / "MANIFEST.in").read_text()


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium")
def test_in_a_real_browser(records, both, tmp_path):
    file = tmp_path / "page.html"
    file.write_text(page(records, both), encoding="utf-8")
    command = [
        CHROMIUM,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-background-networking",
        f"--user-data-dir={tmp_path / 'profile'}",
        "--dump-dom",
        f"{file.as_uri()}#one",
    ]
    dom = subprocess.run(command, capture_output=True, text=True, timeout=120).stdout
    body = re.sub(r"<script.*?</script>", "", dom, flags=re.DOTALL)
    assert body.count('<tr class="type"') == len(both.types)
    assert 'aria-expanded="true">one</button>' in body
    assert "evidences differ" in body
    assert "&lt;/script&gt;&lt;b&gt;" in body
    assert "modeling_one.py#L4" in body
    assert "<b>" not in body
    assert "no modeling file has the class GoneModel" in body
