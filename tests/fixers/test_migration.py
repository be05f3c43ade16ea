"""Repairs of whole models: nothing is found afterwards, and they compute as the repaired twins."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import uuid
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from modelcheck.fixing import FixOutcome, fix_text
from modelcheck.fusers.contract import contract_for
from modelcheck.scan import Scanner

CASES = Path(__file__).parents[2] / "fixtures" / "cases"
NAMES = {
    "22_v5_no_post_init_list_ties": {"MC905": 1, "MC906": 2},
    "24_v5_removed_imports_rope": {"MC902": 1, "MC903": 1, "MC904": 1, "MC907": 1},
    "25_legacy_cache_api": {"MC908": 3},
    "27_positions_from_arange": {"MC202": 1},
    "28_renamed_layer_attrs": {"MC107": 1, "MC108": 1},
    "34_v5_config_missing_pad_token": {"MC909": 1},
}
cases = pytest.mark.parametrize("case", NAMES)


@cache
def outcome(case: str) -> FixOutcome:
    path = CASES / case / "modeling_case.py"
    scanner = Scanner(contract_for("0.33"))
    text = path.read_text(encoding="utf-8")
    return fix_text(str(path), text, lambda new: scanner.check(str(path), new))


@cases
def test_is_repaired(case: str) -> None:
    done = outcome(case)
    assert done.applied == NAMES[case]
    assert not (done.remaining or done.refused or done.failed)


@cases
def test_passes_ruff_as_before(case: str, tmp_path: Path) -> None:
    ruff = shutil.which("ruff", path=str(Path(sys.executable).parent)) or shutil.which("ruff")
    if ruff is None:
        pytest.skip("ruff is not installed")
    path = tmp_path / "modeling_case.py"
    for text in ((CASES / case / "modeling_case.py").read_text(), outcome(case).text):
        path.write_text(text)
        options = ["check", "--isolated", "--select", "E4,E7,E9,F", str(path)]
        assert subprocess.run([ruff, *options], capture_output=True).returncode == 0


def load(text: str, folder: Path) -> Any:
    """The module of a text, which can be saved and loaded again in this process."""
    name = f"modeling_{uuid.uuid4().hex}"
    path = folder / f"{name}.py"
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def named(module: Any, suffix: str) -> Any:
    (found,) = (
        value
        for name, value in vars(module).items()
        if name.endswith(suffix) and isinstance(value, type) and value.__module__ == module.__name__
    )
    return found


@cases
def test_computes_as_the_repaired_twin(case: str, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers", minversion="5.0")
    texts = ((CASES / case / "modeling_fixed.py").read_text(), outcome(case).text)
    models = []
    for text in texts:
        module = load(text, tmp_path)
        torch.manual_seed(0)
        models.append(named(module, "ForCausalLM")(named(module, "Config")()).eval())
    twin, fixed = models
    assert list(twin.state_dict()) == list(fixed.state_dict())
    fixed.load_state_dict(twin.state_dict())
    tokens = torch.arange(3, 17)[None]
    with torch.no_grad():
        wanted = fixed(tokens).logits
        torch.testing.assert_close(wanted, twin(tokens).logits, rtol=0, atol=2e-6)
        fixed.save_pretrained(tmp_path / "saved")
        again = type(fixed).from_pretrained(tmp_path / "saved").eval()
        assert torch.equal(again(tokens).logits, wanted)
    settings = {"max_new_tokens": 4, "do_sample": False, "pad_token_id": 0}
    assert torch.equal(fixed.generate(tokens, **settings), twin.generate(tokens, **settings))
