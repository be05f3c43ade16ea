"""Repositories of the Hub: the real client, against a local server that answers as the Hub does."""

import json
import os
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from modelcheck.cli.targets import is_hub
from modelcheck.errors import UsageError
from modelcheck.hub import HubPath, parse

ROOT = Path(__file__).resolve().parents[2]
DEMO = {p.name: p.read_bytes() for p in (ROOT / "fixtures" / "demo").iterdir() if p.is_file()}
TARN = ROOT / "fixtures" / "models" / "remote_decoder"
MODEL = {p.name: p.read_bytes() for p in TARN.iterdir() if p.is_file()}
NAME = "fen/fen-1b"


def weights(*names, size=400_000):
    """A safetensors file whose tensors are much larger than its header."""
    entry = {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}
    header = json.dumps(dict.fromkeys(names, entry)).encode()
    return struct.pack("<Q", len(header)) + header + bytes(size)


def error_of(result):
    """The one line of a failed run."""
    assert result.returncode == 2, result.stdout + result.stderr
    lines = [line for line in result.stderr.splitlines() if "error: " in line]
    assert len(lines) == 1, result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""
    return lines[0].partition("error: ")[2]


@pytest.mark.parametrize(
    "uri, expected",
    [
        ("hf://org/name", HubPath("org/name")),
        ("hf://models/org/name/", HubPath("org/name")),
        ("hf://org/name@v1.0", HubPath("org/name", "v1.0")),
        ("hf://org/name@refs/pr/3", HubPath("org/name", "refs/pr/3")),
        ("hf://org/name@refs/pr/3/sub/x.py", HubPath("org/name", "refs/pr/3", "sub/x.py")),
        ("hf://org/name@my%2Fbranch", HubPath("org/name", "my/branch")),
        ("hf://org/name/sub/x.py", HubPath("org/name", None, "sub/x.py")),
        ("hf://org/name/sub@2/x.py", HubPath("org/name", None, "sub@2/x.py")),
        ("hf://org/a.b-c_d@main/x.py", HubPath("org/a.b-c_d", "main", "x.py")),
    ],
)
def test_paths_are_read_as_the_client_reads_them(uri, expected):
    assert parse(uri) == expected
    utils = pytest.importorskip("huggingface_hub.utils")
    if not hasattr(utils, "parse_hf_uri"):
        pytest.skip("the client reads no hf:// paths")
    theirs = utils.parse_hf_uri(uri.rstrip("/"))
    found = HubPath(theirs.id, theirs.revision, theirs.path_in_repo)
    assert found == expected


@pytest.mark.parametrize(
    "uri",
    [
        "hf://",
        "hf://name",
        "hf:///name",
        "hf://org/",
        "hf://org/name@",
        "hf://org/name@/x.py",
        "hf://org/name/../../etc",
        "hf://org/name@main//x.py",
        "hf://org/na me",
        "hf://datasets/org/name",
    ],
)
def test_what_is_no_path_of_a_model(uri):
    with pytest.raises(UsageError, match=re.escape(uri)):
        parse(uri)


def test_a_local_path_is_not_of_the_hub():
    assert not is_hub(None)
    assert not is_hub("hf")
    assert not is_hub("./hf://x")


def test_only_what_is_read_is_fetched(hub, modelcheck):
    commit = hub.add(
        NAME,
        {
            **DEMO,
            "model.safetensors": weights("lm_head.weight"),
            "pytorch_model.bin": b"x",
            "README.md": b"x",
            "tokenizer.json": b"{}",
            "sub/helper.py": b"x = 1\n",
        },
    )
    result = modelcheck("scan", f"hf://{NAME}", "--output-format", "concise")
    assert result.returncode == 1, result.stderr
    assert set(hub.downloads) == {*DEMO, "sub/helper.py", "model.safetensors"}
    (wanted,) = [r for m, p, r, _ in hub.requests if m == "GET" and p.endswith(".safetensors")]
    assert wanted == "bytes=0-100000"
    assert f"commit {commit} of {hub.url}/{NAME}" in result.stderr
    lines = result.stdout.splitlines()
    assert any(line.startswith(f"hf://{NAME}/modeling_fen.py:") for line in lines)
    assert "MC325" in result.stdout, "the names of the weights were not looked at"
    assert "/tmp" not in result.stdout


def test_the_findings_are_those_of_the_files(hub, modelcheck):
    hub.add(NAME, DEMO)
    ours = modelcheck("scan", f"hf://{NAME}", "--output-format", "json")
    theirs = modelcheck("scan", str(ROOT / "fixtures" / "demo"), "--output-format", "json")
    found, expected = (json.loads(r.stdout)["findings"] for r in (ours, theirs))
    assert len(found) == len(expected) > 5
    for one, other in zip(found, expected, strict=True):
        assert one.pop("path") == f"hf://{NAME}/{Path(other.pop('path')).name}"
        assert one == other


def test_a_header_longer_than_one_answer(hub, modelcheck):
    names = [f"layers.{number}.nothing.at.all.of.this.name" for number in range(2000)]
    hub.add(NAME, {**MODEL, "model.safetensors": weights(*names)})
    result = modelcheck("scan", f"hf://{NAME}", "--output-format", "concise")
    ranges = [r for m, p, r, _ in hub.requests if m == "GET" and p.endswith(".safetensors")]
    assert len(ranges) == 2
    assert "MC325" in result.stdout


def test_a_header_that_is_none(hub, modelcheck):
    hub.add(NAME, {**MODEL, "model.safetensors": b"version https://git-lfs.github.com/spec/v1\n"})
    result = modelcheck("scan", f"hf://{NAME}")
    assert result.returncode == 0, result.stderr
    assert "model.safetensors is not read" in result.stderr


def test_an_index_needs_no_header(hub, modelcheck):
    index = {"weight_map": {"lm_head.weight": "model-00001-of-00001.safetensors"}}
    files = {
        **MODEL,
        "model.safetensors.index.json": json.dumps(index).encode(),
        "model-00001-of-00001.safetensors": weights("lm_head.weight"),
    }
    hub.add(NAME, files)
    result = modelcheck("scan", f"hf://{NAME}", "--output-format", "concise")
    assert "MC325" in result.stdout
    assert not any(name.endswith(".safetensors") for name in hub.downloads)


def test_the_report_names_the_commit_in_every_format(hub, modelcheck):
    commit = hub.add(NAME, DEMO)
    pinned = f"hf://{NAME}@{commit}"
    for name in ("text", "grouped", "github", "markdown", "junit", "json", "sarif"):
        result = modelcheck("scan", f"hf://{NAME}", "--output-format", name)
        assert pinned in result.stdout.replace("%3A", ":"), name
    data = json.loads(modelcheck("scan", f"hf://{NAME}", "--output-format", "json").stdout)
    url = f"{hub.url}/{NAME}"
    assert data["sources"] == [{"name": f"hf://{NAME}", "url": url, "commit": commit}]
    assert all(finding["releases"] for finding in data["findings"])
    sarif = json.loads(modelcheck("scan", f"hf://{NAME}", "--output-format", "sarif").stdout)
    run = sarif["runs"][0]
    assert run["versionControlProvenance"] == [{"repositoryUri": url, "revisionId": commit}]
    place = run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]
    assert place == {"uri": f"hf://{NAME}/config.json"}


def test_a_revision_is_what_is_checked(hub, modelcheck):
    old = hub.add(NAME, DEMO)
    new = hub.add(NAME, MODEL)
    hub.repositories[NAME].refs |= {"v1": old, "refs/pr/7": old}
    for revision, commit, status in (("main", new, 0), ("v1", old, 1), (old, old, 1)):
        result = modelcheck("scan", f"hf://{NAME}@{revision}")
        assert result.returncode == status, revision
        assert f"@{commit}: " in result.stdout
    assert modelcheck("scan", f"hf://{NAME}@refs/pr/7").returncode == 1


def test_one_file_of_it(hub, modelcheck):
    hub.add(NAME, {**DEMO, "other/modeling_bad.py": b"def\n"})
    result = modelcheck("scan", f"hf://{NAME}@main/modeling_fen.py", "--output-format", "concise")
    assert f"hf://{NAME}@main/modeling_fen.py:57:9: MC501" in result.stdout
    missing = modelcheck("scan", f"hf://{NAME}/modeling_no.py")
    assert "no such Python or JSON file at commit" in error_of(missing)
    broken = modelcheck("scan", f"hf://{NAME}/other")
    assert f"error: hf://{NAME}/other/modeling_bad.py:1: syntax error" in broken.stderr


def test_without_any_code(hub, modelcheck):
    hub.add(NAME, {"README.md": b"x"})
    result = modelcheck("scan", f"hf://{NAME}")
    assert result.returncode == 2
    assert f"no modeling file found in hf://{NAME}" in result.stderr


def test_the_configuration_is_that_of_the_working_folder(hub, modelcheck, tmp_path):
    hub.add(NAME, {**DEMO, "modelcheck.toml": b"ignore = ['MC']"})
    (tmp_path / "here" / "modelcheck.toml").write_text("select = ['MC501']")
    result = modelcheck("scan", f"hf://{NAME}", "--output-format", "json")
    assert {f["code"] for f in json.loads(result.stdout)["findings"]} == {"MC501"}


def test_the_token_opens_a_gated_repository(hub, modelcheck):
    hub.add(NAME, MODEL, access="gated")
    refused = error_of(modelcheck("scan", f"hf://{NAME}"))
    assert refused == f"hf://{NAME}: gated: accept its terms on {hub.url}/{NAME}, and set HF_TOKEN"
    opened = modelcheck("scan", f"hf://{NAME}", HF_TOKEN="hf_secret")
    assert opened.returncode == 0, opened.stderr
    assert ("Bearer hf_secret") in {token for *_, token in hub.requests}
    assert "hf_secret" not in opened.stdout + opened.stderr


def test_errors_of_the_hub_are_one_line(hub, modelcheck):
    hub.add(NAME, MODEL)
    assert "no such model on" in error_of(modelcheck("scan", "hf://fen/no"))
    assert "no such branch, tag or commit" in error_of(modelcheck("scan", f"hf://{NAME}@no"))
    assert "not of the form" in error_of(modelcheck("scan", "hf://fen"))
    assert error_of(modelcheck("scan", "hf://fen/a--b"))


def test_offline_the_cache_is_used(hub, modelcheck):
    commit = hub.add(NAME, {**DEMO, "model.safetensors": weights("lm_head.weight")})
    cold = modelcheck("scan", f"hf://{NAME}", HF_HUB_OFFLINE="1")
    assert "offline, by HF_HUB_OFFLINE, and it is not in the cache" in error_of(cold)
    online = modelcheck("scan", f"hf://{NAME}")
    hub.requests.clear()
    offline = modelcheck("scan", f"hf://{NAME}", HF_HUB_OFFLINE="1")
    assert hub.requests == []
    assert offline.stdout == online.stdout
    assert "MC325" in offline.stdout
    assert "offline, by HF_HUB_OFFLINE: the copy in the cache is used" in offline.stderr
    assert modelcheck("scan", f"hf://{NAME}@{commit}", HF_HUB_OFFLINE="1").returncode == 1


def test_without_a_network_the_cache_is_used_and_said_so(hub, modelcheck):
    hub.add(NAME, MODEL)
    dead = "http://127.0.0.1:9"
    cold = error_of(modelcheck("scan", f"hf://{NAME}", HF_ENDPOINT=dead))
    assert f"{dead} cannot be reached" in cold
    assert "it is not in the cache" in cold
    assert modelcheck("scan", f"hf://{NAME}").returncode == 0
    warm = modelcheck("scan", f"hf://{NAME}", HF_ENDPOINT=dead)
    assert warm.returncode == 0, warm.stderr
    assert f"{dead} cannot be reached" in warm.stderr
    hub.status = 503
    assert (
        "answers with 503: the copy in the cache is used"
        in modelcheck("scan", f"hf://{NAME}").stderr
    )


def test_what_another_tool_has_fetched_is_used(hub, modelcheck, tmp_path):
    """All of it lies in the cache, weights included: their names are read there."""
    hub.add(NAME, {**MODEL, "model.safetensors": weights("lm_head.weight"), "notes.md": b"x"})
    code = f"import huggingface_hub as h; h.snapshot_download({NAME!r})"
    environment = {**os.environ, "HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "hf")}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True)
    result = modelcheck("scan", f"hf://{NAME}", HF_HUB_OFFLINE="1")
    assert "MC325" in result.stdout
    assert "names of the weights" not in result.stderr


def test_code_of_another_repository_is_not_fetched_and_said_so(hub, modelcheck):
    config = json.loads(MODEL["config.json"])
    config["auto_map"]["AutoModel"] = f"other/code--{config['auto_map']['AutoModel']}"
    hub.add(NAME, {**MODEL, "config.json": json.dumps(config).encode()})
    result = modelcheck("scan", f"hf://{NAME}")
    assert "auto_map takes code of hf://other/code, which was not fetched" in result.stderr


def test_the_client_is_optional(hub, modelcheck, tmp_path):
    (tmp_path / "none").mkdir()
    (tmp_path / "none" / "huggingface_hub.py").write_text("raise ImportError")
    path = f"{tmp_path / 'none'}{os.pathsep}{ROOT}"
    result = modelcheck("scan", f"hf://{NAME}", PYTHONPATH=path)
    assert error_of(result) == "hf:// needs huggingface_hub: pip install 'modelcheck[hub]'"


@pytest.mark.parametrize(
    "arguments",
    [
        ["scan", "--fix"],
        ["scan", "--diff"],
        ["scan", "--baseline", "b.json"],
        ["scan", "--changed-only"],
        ["fix"],
    ],
    ids=" ".join,
)
def test_what_writes_needs_files_here(hub, modelcheck, arguments):
    command, *options = arguments
    message = error_of(modelcheck(command, f"hf://{NAME}@main", *options))
    assert f"hf download {NAME} --local-dir FOLDER" in message
    assert hub.requests == []


def test_nothing_runs_without_leave(hub, modelcheck, tmp_path):
    pytest.importorskip("torch")
    mark = tmp_path / "ran"
    code = f"open({str(mark)!r}, 'w')\n".encode()
    hub.add(NAME, {n: code + d if n.endswith(".py") else d for n, d in MODEL.items()})
    assert modelcheck("scan", f"hf://{NAME}").returncode in (0, 1)
    refused = error_of(modelcheck("dryrun", f"hf://{NAME}"))
    assert refused.startswith(f"hf://{NAME}/config.json: the model's own code is needed")
    assert "--trust-remote-code" in refused
    unsure = modelcheck("publish-check", f"hf://{NAME}")
    assert "with --trust-remote-code only" in unsure.stdout
    assert not mark.exists()


@pytest.mark.slow
def test_a_dry_run_of_a_repository(hub, modelcheck):
    pytest.importorskip("torch")
    commit = hub.add(NAME, {**MODEL, "model.safetensors": weights("lm_head.weight")})
    arguments = (f"hf://{NAME}", "--trust-remote-code", "--output-format", "json")
    result = modelcheck("dryrun", *arguments)
    assert result.returncode == 0, result.stderr
    data = json.loads(result.stdout)
    assert data["target"] == f"hf://{NAME}@{commit}"
    assert {f["fuser"] for c in data["classes"] for f in c["fusions"]} >= {"QKV", "GLU", "RMSNorm"}
    assert "model.safetensors" not in hub.downloads


@pytest.mark.slow
def test_a_lock_of_a_repository_is_kept_here(hub, modelcheck, tmp_path):
    hub.add(NAME, MODEL)
    assert "needs --lock FILE" in error_of(modelcheck("gate", f"hf://{NAME}", "--static"))
    arguments = (f"hf://{NAME}", "--static", "--lock", "tarn.lock")
    assert modelcheck("gate", *arguments, "--update").returncode == 0
    assert modelcheck("gate", *arguments).returncode == 0
    hub.add(NAME, {**MODEL, "modeling_tarn.py": broken_norm()})
    lost = modelcheck("gate", *arguments)
    assert lost.returncode == 1, lost.stderr
    assert "TarnRMSNorm: RMSNorm" in lost.stdout


def broken_norm():
    text = MODEL["modeling_tarn.py"].decode()
    assert "torch.rsqrt(" in text
    return text.replace("torch.rsqrt(", "1 / torch.sqrt(").encode()


def test_a_publish_check_of_a_repository(hub, modelcheck):
    commit = hub.add(NAME, {**MODEL, "modeling_tarn.py": broken_norm()})
    arguments = (f"hf://{NAME}", "--no-dryrun", "--no-load")
    result = modelcheck("publish-check", *arguments, "--markdown", "m.md")
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith(f"hf://{NAME}@{commit}: fit to publish: serves, these")
    strict = modelcheck("publish-check", *arguments, "--fail-on-missed", "--output-format", "json")
    assert strict.returncode == 1
    data = json.loads(strict.stdout)
    assert data["sources"][0]["commit"] == commit
    assert {f["path"] for f in data["findings"]} == {f"hf://{NAME}/modeling_tarn.py"}
