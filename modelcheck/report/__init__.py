"""How findings are shown.

    report = Report(result.findings, result.unreadable, result.files, contract.version)
    text = render("sarif", report)

Every format is one module with ``render(report: Report) -> str``; its text has no newline at the
end and is "" when the format has nothing to say.
"""

from __future__ import annotations

import importlib

from modelcheck.report.model import Report, Verdict

__all__ = ["FORMATS", "Report", "Verdict", "render"]

FORMATS: dict[str, str] = {  # what --output-format takes: the module behind it
    name: f"{__name__}.{name}"
    for name in (
        "text",
        "concise",
        "grouped",
        "json",
        "sarif",
        "github",
        "gitlab",
        "junit",
        "markdown",
    )
}


def render(name: str, report: Report) -> str:
    """The report in the format ``name``, a key of `FORMATS`."""
    module = importlib.import_module(FORMATS[name])
    text: str = module.render(report)
    return text.encode(errors="replace").decode()  # names of files may be no Unicode
