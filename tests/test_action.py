"""The GitHub action and the GitLab job: valid by their schemas, and run as their runners do."""

import importlib.resources
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
GITLAB = yaml.safe_load((ROOT / "ci" / "gitlab.yml").read_text())
SCRIPT = (ROOT / "ci" / "github.sh").read_text()
STEPS = {step["name"]: step for step in ACTION["runs"]["steps"]}
TARN = ROOT / "fixtures" / "models" / "remote_decoder"
DEMO = ROOT / "fixtures" / "demo"
NEEDED = ("action.yml", "ci", "pyproject.toml", "README.md", "modelcheck", "fixers")


@pytest.mark.parametrize(
    "schema, document",
    [("github-actions", ACTION), ("gitlab-ci", GITLAB)],
    ids=["github", "gitlab"],
)
def test_it_is_valid(schema, document):
    jsonschema = pytest.importorskip("jsonschema")
    package = importlib.resources.files(pytest.importorskip("check_jsonschema"))
    text = (package / "builtin_schemas" / "vendor" / f"{schema}.json").read_text()
    jsonschema.validators.validator_for(json.loads(text))(json.loads(text)).validate(document)


def test_no_input_is_put_into_a_command_line():
    for step in STEPS.values():
        assert "${{" not in step.get("run", "")


def test_every_input_is_used_and_every_variable_set():
    used = set(re.findall(r"inputs\.([\w-]+)", json.dumps(ACTION["runs"])))
    assert used == set(ACTION["inputs"])
    assert set(re.findall(r"INPUT_\w+", SCRIPT)) <= set(STEPS["Check"]["env"])


def runner(folder, checkout, inputs):
    """The environment of a job, and of a step as the runner evaluates its expressions."""
    values = {name: str(entry.get("default", "")) for name, entry in ACTION["inputs"].items()}
    values |= inputs
    files = {name: folder / name for name in ("GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT")}
    for path in files.values():
        path.write_text("")
    job = {**os.environ, "RUNNER_TEMP": str(folder), **{n: str(p) for n, p in files.items()}}
    job.pop("PYTHONPATH", None)
    job.pop("MODELCHECK_VLLM_PYTHON", None)

    def evaluated(text):
        found = re.fullmatch(r"\$\{\{ (?:inputs\.([\w-]+)|github\.action_path) \}\}", text)
        assert found, text
        return values[found[1]] if found[1] else str(checkout)

    def environment(step):
        return job | {name: evaluated(text) for name, text in step["env"].items()}

    return environment


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The action's checkout, and a Python into which its own step has installed it."""
    folder = tmp_path_factory.mktemp("action")
    checkout = folder / "checkout"
    checkout.mkdir()
    for name in NEEDED:
        source = ROOT / name
        ignore = shutil.ignore_patterns("__pycache__")
        copy = shutil.copytree if source.is_dir() else shutil.copyfile
        copy(source, checkout / name, **({"ignore": ignore} if source.is_dir() else {}))
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    step = STEPS["Install modelcheck"]
    environment = runner(folder, checkout, {})(step)
    environment["PATH"] = f"{folder / 'venv' / 'bin'}{os.pathsep}{environment['PATH']}"
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return checkout, folder / "venv" / "bin"


@pytest.fixture
def check(installed, tmp_path):
    """Runs the step that checks, in a folder of a user's, with inputs; its result and files."""
    checkout, programs = installed
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    shutil.copytree(TARN, workspace / "good")
    shutil.copytree(DEMO, workspace / "bad")

    def run(**inputs):
        named = {name.replace("_", "-"): value for name, value in inputs.items()}
        step = STEPS["Check"]
        environment = runner(tmp_path, checkout, named)(step)
        environment["PATH"] = f"{programs}{os.pathsep}{environment['PATH']}"
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            env=environment,
            cwd=workspace,
            capture_output=True,
            text=True,
        )
        lines = (tmp_path / "GITHUB_OUTPUT").read_text().splitlines()
        outputs = dict(line.split("=", 1) for line in lines)
        return done, outputs, (tmp_path / "GITHUB_STEP_SUMMARY").read_text()

    run.workspace = workspace
    run.programs = programs
    return run


@pytest.mark.slow
def test_scan_annotates_and_fails(check):
    done, outputs, summary = check(path="bad")
    assert done.returncode == 1, done.stdout + done.stderr
    assert (
        "::error title=modelcheck MC301 (error),file=bad/modeling_fen.py,line=138," in done.stdout
    )
    assert outputs["status"] == "1"
    assert set(outputs) == set(ACTION["outputs"])
    assert Path(outputs["report"]).read_text() == summary
    assert summary.startswith("### modelcheck\n\n**bad: refused")
    assert "| error | MC301 |" in summary


@pytest.mark.slow
def test_findings_need_not_fail_the_job(check):
    done, outputs, _ = check(path="bad", fail="false")
    assert (done.returncode, outputs["status"]) == (0, "1")
    done, outputs, _ = check(path="nowhere", fail="false")
    assert (done.returncode, outputs["status"]) == (2, "2")


@pytest.mark.slow
def test_several_paths_and_a_release(check):
    done, _, summary = check(path="good\nbad/config.json\n", vllm="0.29,0.33")
    assert done.returncode == 1
    assert "MC306" in done.stdout
    assert "MC301" not in done.stdout
    assert "0.29.0" in summary


@pytest.mark.slow
@pytest.mark.parametrize(
    "inputs",
    [
        {"path": "$(touch ran)"},
        {"path": "'; touch ran; '"},
        {"path": "--fix"},
        {"path": "good", "vllm": "0.33; touch ran"},
        {"path": "good", "vllm": "$(touch ran)"},
        {"command": "scan; touch ran"},
        {"command": "fix"},
        {"command": "publish-check", "path": "bad", "badge": "$(touch ran)/x"},
    ],
    ids=str,
)
def test_inputs_are_never_executed(check, inputs):
    before = {p: p.read_bytes() for p in check.workspace.rglob("*") if p.is_file()}
    done, outputs, _ = check(**inputs)
    assert (done.returncode, outputs["status"]) == (2, "2"), done.stdout + done.stderr
    assert before == {p: p.read_bytes() for p in check.workspace.rglob("*") if p.is_file()}


@pytest.mark.slow
def test_publish_check(check):
    done, outputs, summary = check(command="publish-check", path="good", badge="badge.json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "fit to publish: serves fused, by scan" in done.stdout
    assert summary.startswith("### modelcheck\n\n✅ **good: fit to publish")
    assert json.loads((check.workspace / "badge.json").read_text())["color"] == "brightgreen"
    first, *_, last = done.stdout.splitlines()
    assert first.replace("stop-commands::", "") == f"{last.removesuffix('::')}", "not quoted"
    done, outputs, summary = check(command="publish-check", path="bad")
    assert (done.returncode, outputs["status"]) == (1, "1")
    assert "❌" in summary


@pytest.mark.slow
def test_gate(check):
    record = [str(check.programs / "modelcheck"), "gate", "good", "--update"]
    subprocess.run(record, cwd=check.workspace, check=True, capture_output=True)
    done, outputs, summary = check(command="gate", path="good")
    assert (done.returncode, outputs["status"]) == (0, "0"), done.stdout + done.stderr
    assert "nothing is lost" in summary
    file = check.workspace / "good" / "modeling_tarn.py"
    file.write_text(file.read_text().replace("torch.rsqrt(", "1 / torch.sqrt("))
    done, outputs, summary = check(command="gate", path="good", vllm="0.32,0.33")
    assert (done.returncode, outputs["status"]) == (1, "1"), done.stdout + done.stderr
    assert "TarnRMSNorm: RMSNorm" in done.stdout
    assert "TarnRMSNorm: RMSNorm" in summary


@pytest.mark.slow
@pytest.mark.parametrize("path, status", [("bad", 1), ("good", 0), ("$(touch ran)", 2)])
def test_the_job_of_gitlab(check, path, status):
    install, *script = GITLAB["modelcheck"]["script"]
    assert install == 'python -m pip install --quiet "$MODELCHECK"'
    environment = {
        **os.environ,
        **GITLAB["variables"],
        "MODELCHECK_PATH": path,
        "PATH": f"{check.programs}{os.pathsep}{os.environ['PATH']}",
    }
    done = subprocess.run(
        ["bash", "-eo", "pipefail", "-c", "\n".join(script)],
        env=environment,
        cwd=check.workspace,
        capture_output=True,
        text=True,
    )
    assert done.returncode == status, done.stdout + done.stderr
    report = GITLAB["modelcheck"]["artifacts"]["reports"]["codequality"]
    issues = json.loads((check.workspace / report).read_text())
    assert not (check.workspace / "ran").exists()
    if path == "bad":
        assert {issue["location"]["path"] for issue in issues} == {
            "bad/config.json",
            "bad/modeling_fen.py",
        }
