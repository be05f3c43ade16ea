"""Does `scan` name the cause where vLLM refuses a model, and keep still where it builds one?

    PYTHONPATH=. python benchmarks/refusals.py --truth FILE [--python PYTHON_WITH_VLLM]
        [--types llama,bart] [--json FILE]

The truth is what vLLM does with every causal type of the installed transformers, built at the
defaults of its configuration, without an engine. It is kept in the JSON file ``--truth``; types
that it lacks are built in the Python that has vLLM and added to it, so that a run can be stopped
and taken up again. Each type's modeling file is then scanned for that vLLM release, as its
author would before there is a config.json. Findings for tensor parallelism only do not count.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from modelcheck.dryrun.target import BuildSpec
from modelcheck.errors import ModelcheckError
from modelcheck.findings import Finding, Severity
from modelcheck.fusers.contract import contract_for
from modelcheck.scan import Scanner
from modelcheck.survey.catalogue import class_files, installed, tables
from modelcheck.vllm.load import find_python, load_many, require_vllm

BUILT = ""  # the message of a type that vLLM builds
BATCH = 20  # types in one process: what a crash costs
TIMEOUT = 580.0  # seconds for a batch
TARGET = 0.95  # of what vLLM refuses, the share that gets an error with the right cause
CAUSAL = "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES"
CAUSAL_FILE = Path("models", "auto", "modeling_auto.py")


class Outcome(StrEnum):
    """What vLLM did, and what scan said."""

    QUIET = "built, nothing said"
    SAID = "built, error or wrong said"
    RIGHT = "refused, the right cause said"
    OTHER = "refused, another cause said"
    NOTED = "refused, the right cause as info"
    MISSED = "refused, nothing said"
    UNJUDGED = "not judged"


@dataclass(frozen=True)
class Cause:
    """What a message of vLLM's means: the rules that say so."""

    pattern: str
    codes: tuple[str, ...]


# The messages that say something about the model's code, as `load` prints them.
CAUSES = (
    Cause(r"The Transformers implementation of .* is not compatible", ("MC301", "MC101", "MC104")),
    Cause(r"Argument \w+ not found in the forward method", ("MC302",)),
    Cause(r"does not dispatch through the Transformers attention", ("MC112", "MC101", "MC103")),
    Cause(r"dispatches attention from more than one module", ("MC111",)),
    Cause(r"KeyError: 'vllm': attention is chosen from a dict", ("MC102",)),
    Cause(r"AssertionError \(vLLM's moe\.py", ("MC321",)),
    Cause(r"'\w+Config' object has no attribute 'num_hidden_layers'", ("MC326",)),
)

# The messages that say nothing about it, and why.
UNJUDGED = (
    (r"Can't load image processor|Could not import module '\w*Processor'", "its processor"),
    (r"requires the \w+ library", "a library that is not installed"),
    (r"no attribute '_pre_trained_model_classes'", "vLLM has a configuration class of its own"),
    (r"transformers has no AutoModel for", "no model of transformers to build"),
    (r"built from the type's default values", "its defaults build no model, without vLLM either"),
    (r"^\S+: StrictDataclass\w*Error", "its defaults make no configuration, without vLLM either"),
    (r"refuses the model: StrictDataclass\w*Error", "vLLM has a configuration class of its own"),
    (r"a limit of vLLM's CPU build", "a limit of vLLM's CPU build"),
)


@dataclass(frozen=True)
class Row:
    """One type. ``message`` is vLLM's, "" where it builds; ``said`` what scan says of its file."""

    name: str
    message: str
    outcome: Outcome
    said: tuple[Finding, ...] = ()
    why: str = ""  # it is not judged

    def to_json(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "type": self.name,
            "outcome": self.outcome.value,
            "message": self.message,
            "said": [f"{f.code} {f.severity} {f.class_name}: {f.message}" for f in self.said],
            "why": self.why,
        }


def judge(name: str, message: str, said: Sequence[Finding]) -> Row:
    """One type's outcome. A refusal whose message no pattern knows has no right cause."""
    grave = tuple(f for f in said if f.severity in (Severity.ERROR, Severity.WRONG))
    if message == BUILT:
        return Row(name, message, Outcome.SAID if grave else Outcome.QUIET, grave)
    if "KeyError: 'vllm'" not in message:  # vLLM's own setting, whatever the rest of the line says
        for pattern, why in UNJUDGED:
            if re.search(pattern, message):
                return Row(name, message, Outcome.UNJUDGED, grave, why)
    errors = {f.code for f in grave if f.severity is Severity.ERROR}
    causes = {code for c in CAUSES if re.search(c.pattern, message) for code in c.codes}
    if errors & causes:
        return Row(name, message, Outcome.RIGHT, grave)
    if any(f.code in causes and f.severity is Severity.INFO for f in said):
        return Row(name, message, Outcome.NOTED, grave)
    return Row(name, message, Outcome.OTHER if errors else Outcome.MISSED, grave)


def share(rows: Iterable[Row]) -> float:
    """Of the types that vLLM refuses for their code, how many get an error with its cause."""
    spared = (Outcome.QUIET, Outcome.SAID, Outcome.UNJUDGED)
    refused = [r for r in rows if r.outcome not in spared]
    return sum(r.outcome is Outcome.RIGHT for r in refused) / len(refused) if refused else 1.0


# Asking vLLM ------------------------------------------------------------------------------


def causal_types() -> list[str]:
    """The causal types of the installed transformers, read without importing it."""
    return sorted(tables([installed().root / CAUSAL_FILE]).get(CAUSAL, {}))


def truth(path: Path, types: Sequence[str], python: str | None) -> dict[str, Any]:
    """{"vllm": release, "transformers": release, "types": {type: message}}, from the file.

    What is missing is asked of vLLM, a batch at a time, and written at once. Raises
    `ModelcheckError` where there is no vLLM to ask.
    """
    known = json.loads(path.read_text()) if path.is_file() else {"types": {}}
    missing = [name for name in types if name not in known["types"]]
    if missing:
        interpreter = find_python(python)
        versions = dict(require_vllm(interpreter))
        known |= {name: versions[name] for name in ("vllm", "transformers")}
    for first in range(0, len(missing), BATCH):
        batch = missing[first : first + BATCH]
        print(f"building {batch[0]} to {batch[-1]} in vLLM", file=sys.stderr, flush=True)
        known["types"] |= _asked(batch, interpreter)
        path.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
    return known


def _asked(batch: Sequence[str], python: str) -> dict[str, str]:
    specs = [BuildSpec(model_type=name) for name in batch]
    answers = load_many(specs, python=python, timeout=TIMEOUT)
    return {
        name: str(answer) if isinstance(answer, Exception) else BUILT
        for name, answer in zip(batch, answers, strict=True)
    }


# Asking scan ------------------------------------------------------------------------------


def model_files(types: Iterable[str]) -> dict[str, Path]:
    """{type: the file of what AutoModel makes of it, without one of its causal model}."""
    catalogue = installed()
    bases = {t.name: t.file for t in catalogue.types}
    causal = tables([catalogue.root / CAUSAL_FILE]).get(CAUSAL, {})
    classes = class_files(catalogue.root)
    found = {}
    for name in types:
        whole = classes.get(str(causal.get(name, "")), ())
        file = bases.get(name) or next(iter(whole), None)
        if file is not None:
            found[name] = file
    return found


def scanned(types: Sequence[str], release: str) -> dict[str, tuple[Finding, ...]]:
    """{type: what scan says of its modeling file}; a type without a file is left out."""
    scanner = Scanner(contract_for(release))
    files = model_files(types)
    by_file: dict[Path, tuple[Finding, ...]] = {}
    for path in sorted({files[name] for name in types if name in files}):
        by_file[path] = tuple(f for f in scanner.check(str(path)) if not f.tp_only)
    return {name: by_file[files[name]] for name in types if name in files}


def show(rows: Sequence[Row]) -> Iterator[str]:
    """The table, then every type that is not as it should be."""
    for outcome in Outcome:
        yield f"{outcome.value:32}{sum(r.outcome is outcome for r in rows):5}"
    yield f"right cause said: {share(rows):.1%} of what vLLM refuses for its code"
    for outcome in (o for o in Outcome if o not in (Outcome.QUIET, Outcome.RIGHT)):
        yield f"\n{outcome.value}"
        for row in (r for r in rows if r.outcome is outcome):
            codes = ", ".join(dict.fromkeys(f"{f.code} {f.severity}" for f in row.said))
            message = row.message.removeprefix(f"{row.name}: ")[:150]
            yield "  " + " | ".join(filter(None, [row.name, codes, row.why, message]))


def main() -> int:
    """Parse the options, ask both, print, write. 1 where the target is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--truth", type=Path, required=True, help="JSON: what vLLM does")
    parser.add_argument("--python", help="a Python that has vLLM, to build what --truth lacks")
    parser.add_argument("--types", help="model types, separated by commas (default: all causal)")
    parser.add_argument("--json", type=Path, help="write every type's outcome here")
    options = parser.parse_args()
    types = options.types.split(",") if options.types else causal_types()
    try:
        found = truth(options.truth, types, options.python)
    except ModelcheckError as error:
        parser.error(str(error))
    said = scanned(types, found["vllm"])
    messages: Mapping[str, str] = found["types"]
    rows = [judge(name, messages[name], said[name]) for name in types if name in said]
    print(f"vLLM {found['vllm']}, transformers {found['transformers']}: {len(rows)} causal types")
    print("\n".join(show(rows)))
    if options.json:
        head = {"vllm": found["vllm"], "transformers": found["transformers"], "share": share(rows)}
        whole = {**head, "types": [row.to_json() for row in rows]}
        options.json.write_text(json.dumps(whole, indent=1) + "\n")
    return 0 if share(rows) >= TARGET else 1


if __name__ == "__main__":
    sys.exit(main())
