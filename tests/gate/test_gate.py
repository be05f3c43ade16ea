"""The gate, from the command line: nothing is lost in silence."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

from modelcheck.dryrun.target import BuildSpec
from modelcheck.fusers.contract import known_releases, newest
from modelcheck.gate.check import check, record, to_json, walk
from modelcheck.gate.lock import NAME, Expectation, read, write
from modelcheck.gate.measure import Model, Seen
from modelcheck.report.gate import lines

NEWEST = newest().version
MODELING = "modeling_tarn.py"
Command = Callable[..., subprocess.CompletedProcess[str]]
needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="needs torch")


@dataclass(frozen=True)
class Change:
    """What is written otherwise, the class that loses a fuser, and the text of the line blamed."""

    pairs: tuple[tuple[str, str], ...]
    class_name: str
    fuser: str
    blamed: str
    reason: str
    count: int = 4


CHANGES = {
    "projection in a helper": Change(
        (
            ("self.q_proj = nn.Linear(", "self.query = nn.Linear("),
            ("self.q_proj(hidden", "self._project(hidden"),
            (
                "class TarnMLP(",
                "    def _project(self, states):\n        return self.query(states)\n\n\n"
                "class TarnMLP(",
            ),
        ),
        "TarnAttention",
        "QKV",
        "    def forward(",
        "query is not called exactly once as self.query(argument)",
    ),
    "renamed input": Change(
        (
            (
                "        value_states = self.v_proj(hidden_states)",
                "        states = hidden_states\n        value_states = self.v_proj(states)",
            ),
        ),
        "TarnAttention",
        "QKV",
        "value_states = self.v_proj(states)",
        "the projections' inputs are written differently",
    ),
    "wrapped activation": Change(
        (("self.act_fn(self.gate_proj(x))", "self.act_fn(self.gate_proj(x)).clamp(max=7.0)"),),
        "TarnMLP",
        "GLU",
        "clamp(max=7.0)",
        "something stands between gate_proj, its activation and the product",
    ),
    "moved multiply": Change(
        (
            (
                "return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))",
                "gate, up = self.act_fn(self.gate_proj(x)), self.up_proj(x)\n"
                "        return self.down_proj(torch.mul(gate, up))",
            ),
        ),
        "TarnMLP",
        "GLU",
        "torch.mul(gate, up)",
        "the product is written with torch.mul",
    ),
    "another norm": Change(
        (
            (
                "torch.rsqrt(variance + self.variance_epsilon)",
                "(1 / torch.sqrt(variance + self.variance_epsilon))",
            ),
        ),
        "TarnRMSNorm",
        "RMSNorm",
        "torch.sqrt",
        "the norm is written with sqrt",
        17,
    ),
}


def change(folder: Path, *pairs: tuple[str, str]) -> None:
    """Write some text of the model otherwise."""
    file = folder / MODELING
    text = file.read_text()
    for before, after in pairs:
        assert before in text, f"{before!r} is no longer in {file.name}"
        text = text.replace(before, after)
    file.write_text(text)


def line_of(folder: Path, words: str, after: str) -> int:
    """The number of the first line with some words, after the class of a name."""
    lines = (folder / MODELING).read_text().splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(f"class {after}("))
    return next(i + 1 for i in range(start, len(lines)) if words in lines[i])


def static(folder: Path) -> Model:
    return Model(BuildSpec(str(folder), full_depth=True), static=True)


def recorded(folder: Path, release: str = NEWEST) -> Path:
    lock, _ = record(static(folder), release)
    write(folder / NAME, lock)
    return folder / NAME


@pytest.mark.parametrize("name", CHANGES)
def test_a_refactor_is_named_with_class_fuser_and_line(repo: Path, name: str) -> None:
    lock = read(recorded(repo))
    assert not check(static(repo), lock, [NEWEST]).fails
    wanted = CHANGES[name]
    change(repo, *wanted.pairs)
    report = check(static(repo), lock, [NEWEST])
    assert report.fails
    (lost,) = report.checks[0].lost
    assert (lost.class_name, lost.fuser) == (wanted.class_name, wanted.fuser)
    assert (lost.was, lost.now, lost.since) == (None, 0, "")
    assert wanted.reason in lost.reason
    assert lost.place is not None
    assert lost.place.path == str(repo / MODELING)
    assert lost.place.line == line_of(repo, wanted.blamed, wanted.class_name)


def test_what_a_class_fuses_as_instead_is_said(repo: Path) -> None:
    lock = read(recorded(repo))
    change(repo, *CHANGES["moved multiply"].pairs)
    report = check(static(repo), lock, [NEWEST])
    assert report.checks[0].lost[0].reason.endswith("it fuses as MergedColumnParallel instead")
    (gained,) = report.checks[0].gained
    assert (gained.class_name, gained.fuser, gained.was) == ("TarnMLP", "MergedColumnParallel", 0)


def test_more_than_recorded_is_a_note(repo: Path, command: Command) -> None:
    change(repo, *CHANGES["another norm"].pairs)
    recorded(repo)
    change(repo, *((after, before) for before, after in CHANGES["another norm"].pairs))
    done = command("gate", "tarn", "--static")
    assert done.returncode == 0, done
    assert "note: TarnRMSNorm: RMSNorm: none -> fused, more than recorded" in done.stdout
    assert "nothing is lost" in done.stdout


def test_a_class_that_is_gone(repo: Path) -> None:
    lock = read(recorded(repo))
    change(repo, ("TarnMLP", "TarnFeedForward"))
    report = check(static(repo), lock, [NEWEST])
    (lost,) = report.checks[0].lost
    assert (lost.class_name, lost.reason) == ("TarnMLP", "the model has no class TarnMLP any more")


def test_an_older_vllm_says_what_is_lost(repo: Path, command: Command) -> None:
    change(repo, *CHANGES["moved multiply"].pairs)  # two linears that only 0.30 and later merge
    recorded(repo, "0.33.0")
    done = command("gate", "tarn", "--static", "--vllm", "0.29")
    assert done.returncode == 1
    lost = [line for line in done.stdout.splitlines() if "-> none" in line]
    assert any(
        "TarnMLP: MergedColumnParallel" in line
        and "vLLM 0.29.0 has no MergedColumnParallel fuser" in line
        and "(vLLM fuses it since 0.30.0)" in line
        for line in lost
    )
    assert any("TarnAttention: Attention" in line and "through **kwargs" in line for line in lost)
    assert len(lost) == 2
    assert "2 of 4 recorded fusions lost: vLLM 0.29.0 against" in done.stdout


def test_a_newer_vllm_says_since_when(repo: Path) -> None:
    """Arithmetic between projections: accepted up to 0.29, refused from 0.30 on."""
    change(
        repo,
        (
            "self.q_norm(self.q_proj(hidden_states)",
            "self.q_norm((self.q_proj(hidden_states) * 1.0)",
        ),
    )
    first = read(recorded(repo, "0.29.0"))
    assert first.expectation(("TarnAttention", "QKV")) is not None
    report = check(static(repo), first, ["0.33.0"])
    (lost,) = report.checks[0].lost
    assert (lost.fuser, lost.since) == ("QKV", "lost since vLLM 0.30.0")


def test_the_matrix(repo: Path, command: Command) -> None:
    recorded(repo)
    done = command("gate", "tarn", "--static", "--matrix", "0.33,0.28, 0.30")
    assert done.returncode == 1
    table = [line.split() for line in done.stdout.splitlines()[:4]]
    assert [row[0] for row in table[1:]] == ["0.28.0", "0.30.0", "0.33.0"]
    assert [row[1] for row in table[1:]] == [
        c.transformers for c in known_releases() if c.version in ("0.28.0", "0.30.0", "0.33.0")
    ]
    assert "3 of 4" in done.stdout
    assert "TarnAttention Attention" in done.stdout
    done = command("gate", "tarn", "--static", "--matrix", "0.30,0.33")
    assert done.returncode == 0


def test_the_verdict_for_other_releases_of_transformers(repo: Path, command: Command) -> None:
    """An import that transformers 5.0 removed: refused there, whatever is installed."""
    assert command("gate", "tarn", "--static", "--update", "--vllm", "0.32").returncode == 0
    model = repo / "modeling_tarn.py"
    model.write_text(f"from transformers.utils import is_torch_fx_available\n{model.read_text()}")
    arguments = ("gate", "tarn", "--static", "--vllm", "0.32", "--transformers", "4.50,5.19")
    ran = command(*arguments)
    assert ran.returncode == 1
    said = [line for line in ran.stdout.splitlines() if "was serves" in line]
    assert len(said) == 1 and said[0].endswith("[vLLM 0.32.0, transformers 5.19]"), ran.stdout
    rows = json.loads(command(*arguments, "--json").stdout)["releases"]
    assert [row["transformers"] for row in rows] == ["4.50", "5.19"]
    assert [row["transformers_fits"] for row in rows] == [False, True]
    assert [bool(row["verdict_worse"]) for row in rows] == [False, True]


def test_json(repo: Path, command: Command) -> None:
    recorded(repo)
    wanted = CHANGES["wrapped activation"]
    change(repo, *wanted.pairs)
    done = command("gate", "tarn", "--static", "--json")
    assert done.returncode == 1
    data = json.loads(done.stdout)
    assert (data["schema_version"], data["ok"], data["evidence"]) == (1, False, "predicted")
    (release,) = data["releases"]
    (lost,) = release["lost"]
    assert (lost["class_name"], lost["fuser"], lost["since"]) == ("TarnMLP", "GLU", None)
    assert lost["line"] == line_of(repo, wanted.blamed, "TarnMLP")
    assert data["lock"]["vllm"] == NEWEST


def test_a_graver_verdict_fails_too(repo: Path) -> None:
    """What fuses is not all: a model that vLLM now refuses has not passed."""
    lock = read(recorded(repo))
    change(repo, ("        position_ids: torch.LongTensor | None = None,\n", ""))
    report = check(static(repo), lock, [NEWEST])
    assert report.fails
    assert not report.checks[0].lost
    assert "MC302" in report.checks[0].worse
    assert any("the model: was serves fused, now" in line for line in lines(report))
    assert to_json(report)["ok"] is False


def test_what_cannot_be_decided_is_no_pass_and_no_failure(repo: Path, command: Command) -> None:
    recorded(repo)
    change(
        repo,
        ("self.act_fn = ACT2FN[config.hidden_act]", "self.act_fn = somewhere(config)"),
        ("from .configuration_tarn", "from .elsewhere import somewhere\nfrom .configuration_tarn"),
    )
    done = command("gate", "tarn", "--static")
    assert "TarnMLP: GLU: not known: " in done.stdout
    assert done.returncode == 2


def test_without_consent_the_code_is_only_read(repo: Path, command: Command) -> None:
    recorded(repo)
    change(repo, ("from torch import nn\n", "from torch import nn\nopen('ran', 'w')\n"))
    done = command("gate", "tarn")
    assert (done.returncode, (repo.parent / "ran").exists()) == (0, False)
    if find_spec("torch") is not None:
        assert "does not run without --trust-remote-code" in done.stderr


@needs_torch
def test_counts_are_those_of_the_whole_model(repo: Path, command: Command) -> None:
    """Traced: one build for the lock, one for all changes; the depth is the real one."""
    config = json.loads((repo / "config.json").read_text()) | {"num_hidden_layers": 7}
    (repo / "config.json").write_text(json.dumps(config))
    done = command("gate", "tarn", "--trust-remote-code", "--update")
    assert done.returncode == 0, done
    lock = read(repo / NAME)
    counts = {e.key: e.count for e in lock.expectations}
    assert lock.layers == 7
    assert counts["TarnMLP", "GLU"] == 7
    assert counts["TarnRMSNorm", "RMSNorm"] == 4 * 7 + 1
    names = {e.fuser: e.names for e in lock.expectations}
    assert names["RMSNorm"][-1] == "q_norm"

    wanted = CHANGES["wrapped activation"]
    change(repo, *wanted.pairs)
    # Half of the norms are of another class now: fewer, and all of them fuse.
    change(
        repo,
        (
            "class TarnRotaryEmbedding(",
            "class TarnHeadNorm(TarnRMSNorm):\n    pass\n\n\nclass TarnRotaryEmbedding(",
        ),
        ("self.q_norm = TarnRMSNorm", "self.q_norm = TarnHeadNorm"),
    )
    done = command("gate", "tarn", "--trust-remote-code")
    assert done.returncode == 1, done
    line = line_of(repo, wanted.blamed, "TarnMLP")
    assert f"tarn/{MODELING}:{line}: TarnMLP: GLU: 7 -> none: something stands" in done.stdout
    assert "TarnRMSNorm: RMSNorm: 29 -> 22 (q_norm): the model has only 22 of" in done.stdout
    assert "note: TarnHeadNorm: RMSNorm: none -> 7, more than recorded" in done.stdout


@needs_torch
def test_a_model_that_cannot_be_built_is_one_line(repo: Path, command: Command) -> None:
    recorded(repo)
    change(repo, ("self.head_dim**-0.5", "self.head_dims**-0.5"))
    done = command("gate", "tarn", "--trust-remote-code")
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert "head_dims" in line and f"{MODELING}:" in line


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["tarn"], "tarn/modelcheck.lock: no such file; modelcheck gate --update writes it"),
        (["nowhere"], "nowhere: no such folder"),
        (["tarn", "--load", "--static"], "--load and --static exclude each other"),
        (["tarn", "--vllm", "0.33", "--matrix", "0.30"], "exclude each other"),
        (["tarn", "--update", "--matrix", "0.30"], "--update records one vLLM release"),
        (["tarn", "--matrix", ","], "--matrix names no vLLM release"),
        (["tarn", "--matrix", "0.30,new"], "'new' is not a version"),
        (["tarn", "--vllm", "0.11"], "0.11 has no fusers"),
        (["tarn", "--python", "x"], "--python needs --load"),
        (["tarn", "--update", "--lock", "no/such/folder/x.lock"], "no/such/folder/x.lock: "),
    ],
)
def test_bad_usage(repo: Path, command: Command, arguments: list[str], words: str) -> None:
    done = command("gate", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    line = done.stderr.splitlines()[-1]
    assert line.startswith("modelcheck: error: ") and words in line


def test_a_type_of_transformers(tmp_path: Path, command: Command) -> None:
    """A folder with nothing but a config.json: the source is that of transformers."""
    if find_spec("transformers") is None:
        pytest.skip("needs transformers")
    folder = tmp_path / "tarn"
    folder.mkdir()
    config = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "num_hidden_layers": 3}
    (folder / "config.json").write_text(json.dumps(config))
    assert command("gate", "tarn", "--static", "--update").returncode == 0
    keys = {e.key for e in read(folder / NAME).expectations}
    assert {("LlamaMLP", "GLU"), ("LlamaAttention", "QKV"), ("LlamaRMSNorm", "RMSNorm")} <= keys
    assert command("gate", "tarn", "--static").returncode == 0
    (folder / "config.json").write_text(json.dumps(config | {"model_type": "lama"}))
    done = command("gate", "tarn", "--static")
    assert (done.returncode, done.stdout) == (2, "")
    assert "none of transformers for 'lama'" in done.stderr


def test_the_way_between_two_releases() -> None:
    versions = [contract.version for contract in known_releases()]
    assert walk(versions[0], versions[-1]) == tuple(versions)
    assert walk(versions[-1], versions[0]) == tuple(reversed(versions))
    assert walk("0.32.0+cpu", "0.32") == ()


def test_who_routes_is_part_of_the_expectation() -> None:
    """An MoE block that is not known about is neither lost nor kept, whoever routed it."""
    inside = Expectation("Block", "MoEBlock (internal routing)", 2)
    outside = Expectation("Block", "MoEBlock (external routing)", 2)
    unknown = Seen("0.33.0", {}, {("Block", "MoEBlock"): "the router is not known"})
    assert unknown.doubt(inside.key) == "the router is not known"
    assert unknown.doubt(("Other", "MoEBlock (internal routing)")) is None
    fused = Seen("0.33.0", {outside.key: outside}, {("Block", "MoEBlock"): "of another instance"})
    assert fused.doubt(inside.key) is None
    assert inside.key not in fused.fused
