"""``modelcheck ab`` on a real vLLM: tiny models, few requests."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from modelcheck.errors import ExitCode
from modelcheck.vllm.load import PYTHON

ROOT = Path(__file__).resolve().parents[2]
REMOTE = ROOT / "fixtures" / "models" / "remote_decoder"

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.slow,
    pytest.mark.skipif(not os.environ.get(PYTHON), reason=f"${PYTHON} names no vLLM"),
]

LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 512,
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": False,
    "dtype": "float32",
}
ENGINE = ("--engine-args", "--dtype float32 --enforce-eager --max-model-len 64")
FEW = ("--", "--random-input-len", "8", "--random-output-len", "8", "--num-prompts", "8")
SMALL = {  # see docs of vLLM's CPU build: one process, a small cache
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "OMP_NUM_THREADS": "1",
}
LOCK = """\
schema = 1
vllm = "0.32.0"
evidence = "traced"

[classes.LlamaMLP.GLU]
count = 2
names = ["mlp"]

[classes.LlamaMLP.RMSNorm]
count = 2
names = ["mlp"]
"""


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "modelcheck", "ab", *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), **SMALL},
        timeout=900,
    )


@pytest.fixture
def llama(tmp_path: Path) -> Path:
    folder = tmp_path / "llama"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(LLAMA))
    return folder


def test_both_sides_by_throughput(llama: Path, tmp_path: Path) -> None:
    """The lock expects a fusion that there cannot be: every log has to show it, none does."""
    (llama / "modelcheck.lock").write_text(LOCK)
    plot = tmp_path / "ab.html"
    done = run(llama, "--repeats", "2", "--output-format", "json", "--plot", plot, *ENGINE, *FEW)

    assert done.returncode == ExitCode.FINDINGS, done.stderr
    data: dict[str, Any] = json.loads(done.stdout)
    assert [(r["pair"]) for r in data["runs"]] == [0, 0, 1, 1]
    assert {r["side"] for r in data["runs"][:2]} == {"vllm", "transformers"}
    metric = data["metrics"][0]
    assert metric["key"] == "tokens_per_second"
    assert metric["vllm"]["low"] < metric["vllm"]["median"] < metric["vllm"]["high"]
    assert metric["ratio"]["low"] < metric["ratio"]["value"] < metric["ratio"]["high"]
    assert ("spans 1" in metric["verdict"]) == (
        metric["ratio"]["low"] <= 1 <= metric["ratio"]["high"]
    )
    missing = data["fusions"]["missing"]
    assert [(m["class_name"], m["fuser"]) for m in missing] == [("LlamaMLP", "RMSNorm")]
    fused = [r["fused"] for r in data["runs"] if r["side"] == "transformers"]
    assert fused == [fused[0]] * 2 and fused[0] >= 4
    assert "--load-format" in data["arguments"]
    assert plot.read_text().count("<svg") == 3
    assert "Traceback" not in done.stderr


def test_a_model_of_its_own_code_has_one_side_by_serve(tmp_path: Path) -> None:
    repo = Path(shutil.copytree(REMOTE, tmp_path / "tarn"))
    serve = ("--bench", "serve", "--repeats", "1", "--trust-remote-code")
    done = run(repo, *serve, *ENGINE, *FEW, "--ignore-eos")

    assert done.returncode == ExitCode.OK, done.stderr
    assert "vLLM has no implementation of its own of TarnForCausalLM" in done.stdout
    assert "median TTFT, ms" in done.stdout and "median ITL, ms" in done.stdout
    assert "fusions: all 4 that are expected are in every log (dry run)" in done.stdout
    assert "ratio" not in done.stdout.replace("there is no ratio", "")


def test_what_vllm_refuses_is_one_line(llama: Path) -> None:
    done = run(llama, "--engine-args", "--max-model-len 100000", *FEW)

    assert (done.returncode, done.stdout) == (ExitCode.USAGE, "")
    progress, error = done.stderr.splitlines()
    assert progress.startswith("modelcheck: run 1 of 10: ")
    assert error.startswith(f"modelcheck: error: {llama}: --model-impl ")
    assert "max_model_len" in error
