"""A case of ``fixtures/cases`` as a model repository: the file, and a config.json that names it."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

from modelcheck.dryrun.target import BuildSpec

CASES = Path(__file__).resolve().parents[1] / "fixtures" / "cases"

# What vLLM reads from config.json itself, beyond the defaults of the configuration's class.
LATENT = {
    "kv_lora_rank": 32,
    "qk_nope_head_dim": 32,
    "qk_rope_head_dim": 16,
    "v_head_dim": 32,
    "num_key_value_heads": 4,
    "head_dim": 16,
}
VALUES = {"17_mla_inline_expansion": LATENT}


def as_repo(case: str, folder: Path, name: str = "modeling_case.py") -> BuildSpec:
    """Write the repository of a case into a folder of the case's name, and how to build it."""
    source = CASES / case / name
    prefix = re.findall(r"^class (\w+)Config\(", source.read_text(), re.MULTILINE)[0]
    # Of two folders of one name transformers imports one.
    repo = folder / f"{case}_{name.removesuffix('.py')}_{folder.name}"
    repo.mkdir()
    shutil.copyfile(source, repo / "modeling_case.py")
    model_type = re.findall(r'model_type = "(\w+)"', source.read_text())[0]
    entries = {"AutoConfig": "Config", "AutoModel": "Model", "AutoModelForCausalLM": "ForCausalLM"}
    config = {
        "architectures": [f"{prefix}ForCausalLM"],
        "model_type": model_type,
        "auto_map": {key: f"modeling_case.{prefix}{name}" for key, name in entries.items()},
        **VALUES.get(case, {}),
    }
    (repo / "config.json").write_text(json.dumps(config))
    return BuildSpec(path=str(repo), trust_remote_code=True)
