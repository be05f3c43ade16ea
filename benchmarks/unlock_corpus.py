"""Old models as their authors would have published them: stand-alone remote-code repositories.

    python benchmarks/unlock_corpus.py 4.44.2 FOLDER

Every decoder of an unpacked transformers release becomes a folder with its modeling and
configuration file (imports made absolute), an auto_map and a tiny config.json. Nothing here
knows a model: widths are set by the names of the configuration's own arguments.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

AUTO = "models/auto/modeling_auto.py"
CONFIG_AUTO = "models/auto/configuration_auto.py"
SUFFIX = "_remote"  # a type that no release of transformers knows: only the repository's code runs
PREFIX = "Remote"  # the same for the architecture: vLLM prefers a class of transformers' own
VOCABULARY = 128
# Argument names of configurations, and their tiny value. Heads are 32 wide, the least that vLLM's
# CPU build has attention for.
TINY: Mapping[tuple[str, ...], Any] = {
    ("vocab_size",): VOCABULARY,
    ("hidden_size", "d_model", "n_embd", "embedding_size", "emb_dim", "input_embedding_size"): 128,
    ("num_hidden_layers", "n_layer", "n_layers", "num_layers"): 2,
    ("num_attention_heads", "n_head", "n_heads", "num_heads", "attention_heads"): 4,
    ("num_key_value_heads", "kv_n_heads"): 2,
    ("head_dim", "dim_head", "kv_channels", "attention_head_size", "query_pre_attn_scalar"): 32,
    ("rotary_dim",): 8,
    ("intermediate_size", "ffn_dim", "dim_ff", "dff", "ffn_hidden_size", "feed_forward_size"): 128,
    ("moe_intermediate_size", "shared_expert_intermediate_size"): 64,
    ("num_experts", "num_local_experts", "moe_num_experts"): 4,
    ("num_experts_per_tok", "moe_top_k"): 2,
    ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "context_length"): 128,
    ("original_max_position_embeddings",): 128,
    ("sliding_window", "window_size", "attention_window_size"): 8,  # less than a prompt
    ("d_inner",): 128,
    ("output_embedding_size",): 128,
    ("clip_qkv",): 8.0,
    ("is_decoder",): True,
}
VALUES = {name: value for names, value in TINY.items() for name in names}
# Old releases want every import of remote code installed that is not in a ``try``.
KERNELS = re.compile(
    r"(?m)^if is_flash_attn_2_available\(\):\n"
    r"((?:    .*\n|\n(?=    ))*?    from flash_attn\b.*\n(?:    .*\n|\n(?=    ))*)"
)
PER_LAYER = "attention_types"  # [[kinds, repetitions]], one kind for every layer


@dataclass(frozen=True)
class Model:
    """One entry of the release's tables: ``name`` its type, and its three classes."""

    name: str
    config: str
    base: str
    causal: str
    modeling: Path
    configuration: Path


def download(release: str, folder: Path) -> Path:
    """Unpack the wheel of a release under ``folder``; the package's own folder."""
    package = folder / release / "transformers"
    if not (package / AUTO).exists():
        target = folder / release
        target.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        subprocess.run([*command, "--dest", str(target), f"transformers=={release}"], check=True)
        (wheel,) = target.glob("transformers-*.whl")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(target)
        wheel.unlink()
    return package


def models(package: Path) -> list[Model]:
    """The decoders of a release: in its causal table, with a base model in the same file.

    A base model that is given decoder tokens beside its own, or pictures, is none.
    """
    auto, configs = _tables(package / AUTO), _tables(package / CONFIG_AUTO)
    found = []
    for name, causal in auto["MODEL_FOR_CAUSAL_LM_MAPPING_NAMES"].items():
        stem = name.replace("-", "_")
        folder = package / "models" / stem
        modeling, configuration = (
            folder / f"modeling_{stem}.py",
            folder / f"configuration_{stem}.py",
        )
        base = auto["MODEL_MAPPING_NAMES"].get(name)
        config = configs["CONFIG_MAPPING_NAMES"].get(name)
        if base is None or config is None or not modeling.exists() or not configuration.exists():
            continue
        base = base if isinstance(base, str) else base[0]
        classes = _classes(modeling)
        if causal in classes and base in classes and _is_decoder(base, classes):
            found.append(Model(stem, config, base, causal, modeling, configuration))
    return found


def write_repo(model: Model, folder: Path) -> None:
    """One model as a repository of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    config_stem, stem = model.configuration.stem, model.modeling.stem
    code = _absolute(model.modeling.read_text(), model.name, config_stem)
    code = re.sub(rf"\b{model.causal}\b", PREFIX + model.causal, code)
    code = KERNELS.sub(r"try:\n\1except ImportError:\n    pass\n", code)
    settings = _absolute(model.configuration.read_text(), model.name, config_stem)
    settings = re.sub(r'(?m)^(\s+model_type\s*=\s*)"([^"]+)"', rf'\1"\2{SUFFIX}"', settings)
    (folder / f"{stem}.py").write_text(code)
    (folder / f"{config_stem}.py").write_text(settings)
    kind = re.search(r'(?m)^\s+model_type\s*=\s*"([^"]+)"', _class_text(settings, model.config))
    config = {
        "architectures": [PREFIX + model.causal],
        "auto_map": {
            "AutoConfig": f"{config_stem}.{model.config}",
            "AutoModel": f"{stem}.{model.base}",
            "AutoModelForCausalLM": f"{stem}.{PREFIX}{model.causal}",
        },
        "model_type": kind.group(1) if kind else f"{model.name}{SUFFIX}",
        **tiny(model.config, _classes(model.configuration)),
    }
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")


def tiny(config: str, classes: Mapping[str, ast.ClassDef]) -> dict[str, Any]:
    """Small values for the arguments that a configuration class has, nested ones included."""
    values: dict[str, Any] = {"is_decoder": True}
    for argument, default in _arguments(classes[config]):
        inner = next((n for n in _names(argument.annotation) if n in classes), None)
        if inner is not None and inner != config:
            values[argument.arg] = {k: v for k, v in tiny(inner, classes).items() if k in VALUES}
            values[argument.arg].pop("is_decoder", None)
        elif argument.arg in VALUES and (default is not None or "window" not in argument.arg):
            values[argument.arg] = VALUES[argument.arg]
        elif argument.arg == PER_LAYER:
            values[argument.arg] = [[default[0][0], 1]]
        elif argument.arg.endswith("_token_id") and isinstance(default, int):
            values[argument.arg] = default if default < VOCABULARY else 1
    return values


def _tables(path: Path) -> dict[str, dict[str, Any]]:
    found = {}
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and node.value.args:
            name = ast.unparse(node.targets[0])
            if name.endswith("_NAMES"):
                found[name] = dict(ast.literal_eval(node.value.args[0]))
    return found


def _classes(path: Path) -> dict[str, ast.ClassDef]:
    body = ast.parse(path.read_text()).body
    return {node.name: node for node in body if isinstance(node, ast.ClassDef)}


def _class_text(text: str, name: str) -> str:
    return text[text.index(f"class {name}(") :]


def _is_decoder(base: str, classes: Mapping[str, ast.ClassDef]) -> bool:
    forward = next((f for f in classes[base].body if getattr(f, "name", "") == "forward"), None)
    if not isinstance(forward, ast.FunctionDef):
        return False
    names = {a.arg for a in forward.args.args}
    return "input_ids" in names and not names & {"decoder_input_ids", "pixel_values"}


def _arguments(cls: ast.ClassDef) -> list[tuple[ast.arg, Any]]:
    """The arguments of ``__init__`` that have a default, with it (None where it is no literal)."""
    init = next((f for f in cls.body if getattr(f, "name", "") == "__init__"), None)
    if not isinstance(init, ast.FunctionDef):
        return []
    arguments = init.args.args[len(init.args.args) - len(init.args.defaults) :]
    return [(a, _literal(d)) for a, d in zip(arguments, init.args.defaults, strict=True)]


def _literal(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except ValueError:
        return None


def _names(annotation: ast.expr | None) -> list[str]:
    return re.findall(r"\w+", ast.unparse(annotation)) if annotation is not None else []


def _absolute(text: str, model: str, config_stem: str) -> str:
    """Relative imports as absolute ones, but for that of the configuration beside the file."""
    packages = {1: f"transformers.models.{model}", 2: "transformers.models", 3: "transformers"}

    def replaced(match: re.Match[str]) -> str:
        dots, rest = len(match["dots"]), match["rest"]
        if dots == 1 and rest == config_stem:
            return match[0]
        return f"{match['lead']}from {'.'.join(filter(None, (packages[dots], rest)))} import"

    pattern = r"(?m)^(?P<lead>\s*)from (?P<dots>\.{1,3})(?P<rest>[\w.]*) import"
    return re.sub(pattern, replaced, text)


def main() -> None:
    """Write the corpus of a release."""
    release, target = sys.argv[1], Path(sys.argv[2])
    for model in models(download(release, target / "wheels")):
        write_repo(model, target / release / model.name)
        print(model.name)


if __name__ == "__main__":
    main()
