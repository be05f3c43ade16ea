"""Code of a model that hangs, dies, floods or forks: one line, the right status, no orphan."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from modelcheck.dryrun.target import BuildSpec
from modelcheck.errors import BuildError, ExitCode
from modelcheck.vllm.load import PYTHON, LoadReport, load_many

pytest.importorskip("transformers")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not Path("/proc/self/environ").exists(), reason="looks for orphans in /proc"
    ),
]

needs_vllm = pytest.mark.skipif(not os.environ.get(PYTHON), reason=f"${PYTHON} names no vLLM")

ROOT = Path(__file__).resolve().parents[1]
REMOTE = ROOT / "fixtures" / "models" / "remote_decoder"
MARK = "MODELCHECK_TEST_MARK"
NAMED = "modeling_tarn.py:"

FAULTS = {
    "hang": "import time\n    time.sleep(600)",
    "hang_in_c": "import re\n    re.match('(a+)+$', 'a' * 64 + 'b')",  # never lets go of the GIL
    "exit_0": "import os\n    os._exit(0)",
    "exit_3": "import os\n    print('last words', flush=True)\n    os._exit(3)",
    "sys_exit": "import sys\n    sys.exit('no more')",
    "segfault": "import ctypes\n    ctypes.string_at(0)",
    "killed": "import os, signal\n    os.kill(os.getpid(), signal.SIGKILL)",
    "group": "import os, signal\n    os.killpg(0, signal.SIGTERM)",
    "memory": "held = []\n    while True:\n        held.append(bytearray(1 << 24))",
    # mapped memory, in processes of which none holds too much
    "memory_of_all": "import mmap, os\n    while os.fork():\n        pass\n"
    "    held = mmap.mmap(-1, 3 << 30)\n    for i in range(0, 3 << 30, 4096):\n"
    "        held[i] = 1\n    import time\n    time.sleep(600)",
    "flood": "while True:\n        print('x' * 1_000_000)",
    "interrupt": "raise KeyboardInterrupt",
    "noise": "import os, sys\n    print('{}')\n    os.write(1, b'junk\\n')\n"
    "    os.write(2, b'junk\\n')\n    sys.stdout.close()\n    sys.stderr.close()",
    "child": "import subprocess\n    subprocess.Popen(['sleep', '600'])",
    "daemon": "import subprocess\n"
    "    subprocess.Popen('sleep 600 &', shell=True, start_new_session=True, env={})",
}
PLACES = {
    "import": ("class TarnRMSNorm(", "_fault()\n\n\nclass TarnRMSNorm("),
    "init": ("        self.embed_tokens =", "        _fault()\n        self.embed_tokens ="),
    "forward": (
        "        if inputs_embeds is None:\n            inputs_embeds =",
        "        _fault()\n        if inputs_embeds is None:\n            inputs_embeds =",
    ),
}


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    status: int
    stdout: str
    errors: tuple[str, ...]


class Bench:
    """A place for broken repositories, and the commands that are run on them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.mark = uuid.uuid4().hex

    def repo(self, fault: str, place: str) -> Path:
        """The remote-code fixture with a fault in its modeling file."""
        repo = Path(shutil.copytree(REMOTE, self.folder / f"{fault}_{place}_{self.mark}"))
        modeling = repo / "modeling_tarn.py"
        text = modeling.read_text()
        helper = f"def _fault():\n    {FAULTS[fault]}\n\n\nclass TarnRMSNorm("
        text = text.replace("class TarnRMSNorm(", helper, 1)
        old, new = PLACES[place]
        assert text.count(old) == 1, old
        modeling.write_text(text.replace(old, new))
        return repo

    def start(self, *arguments: str | Path, **env: str) -> subprocess.Popen[str]:
        """``modelcheck ARGUMENTS`` with a mark in the environment of all that it starts."""
        return subprocess.Popen(
            [sys.executable, "-m", "modelcheck", *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(ROOT), MARK: self.mark, **env},
            # A shell has the jobs in its background ignore Ctrl-C, and what they start inherits it.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    def run(self, *arguments: str | Path, **env: str) -> Ended:
        """Run it to its end, within five minutes."""
        with self.start(*arguments, **env) as process:
            try:
                out, err = process.communicate(timeout=300)
            finally:
                process.kill()
        return Ended(process.returncode, out, tuple(err.splitlines()))

    def processes(self) -> list[int]:
        """Which processes of the commands there still are."""
        wanted = f"{MARK}={self.mark}".encode()
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    if wanted in (entry / "environ").read_bytes().split(b"\0"):
                        found.append(int(entry.name))
                except OSError:
                    continue
        return found


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """Nothing may be left afterwards; what is, is killed."""
    made = Bench(tmp_path)
    yield made
    left = made.processes()
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert not left, "orphans"


def trusting(command: str) -> list[str]:
    return [*command.split(), "--trust-remote-code"]


# fault, place, command, what the one line says
ONE_LINE = (
    ("hang", "import", "dryrun --timeout 20", "no answer within 20 s"),
    ("hang_in_c", "init", "dryrun --timeout 20", "no answer within 20 s"),
    ("exit_0", "import", "dryrun", "exit status 0"),
    ("exit_3", "init", "dryrun", "exit status 3"),
    ("segfault", "init", "dryrun", "SIGSEGV"),
    ("killed", "import", "dryrun", "SIGKILL"),
    ("group", "init", "dryrun", "SIGTERM"),
    ("sys_exit", "import", "dryrun", "SystemExit: no more"),
    ("interrupt", "init", "dryrun", "KeyboardInterrupt"),
    ("memory", "init", "dryrun", "emory"),
    ("memory_of_all", "import", "dryrun", "more than 8192 MB of memory"),
    ("flood", "init", "dryrun", "printed more than 256 MB"),
    ("hang", "forward", "emulate --timeout 25", "no answer within 25 s"),
    ("exit_3", "forward", "emulate", "exit status 3"),
    ("segfault", "forward", "emulate", "SIGSEGV"),
    ("exit_0", "init", "gate --update", "exit status 0"),
    ("hang", "import", "gate --update --timeout 20", "no answer within 20 s"),
    ("segfault", "init", "tp", "SIGSEGV"),
)


@pytest.mark.parametrize(("fault", "place", "command", "said"), ONE_LINE)
def test_one_line_and_the_status(
    bench: Bench, fault: str, place: str, command: str, said: str
) -> None:
    repo = bench.repo(fault, place)
    ended = bench.run(*trusting(command), repo)

    assert ended.status == ExitCode.USAGE
    assert ended.stdout == ""
    (line,) = ended.errors
    assert line.startswith("modelcheck: error: ")
    assert said in line
    assert str(repo) in line
    if fault not in ("killed", "group", "memory_of_all"):  # those leave no time to say more
        assert NAMED in line


IN_VLLM = (
    ("exit_3", "init", "load", "exit status 3"),
    ("hang", "import", "load --timeout 40", "no answer within 40 s"),
    ("segfault", "forward", "load --parity", "SIGSEGV"),
)


@needs_vllm
@pytest.mark.parametrize(("fault", "place", "command", "said"), IN_VLLM)
def test_one_line_where_vllm_runs(
    bench: Bench, fault: str, place: str, command: str, said: str
) -> None:
    test_one_line_and_the_status(bench, fault, place, command, said)


@needs_vllm
def test_a_model_that_kills_the_process_costs_the_others_nothing(bench: Bench) -> None:
    folders = [bench.repo("child", "import"), bench.repo("segfault", "init")]
    first, second = load_many([BuildSpec(str(f), trust_remote_code=True) for f in folders])

    assert isinstance(first, LoadReport) and first.agree
    assert isinstance(second, BuildError) and NAMED in str(second) and "SIGSEGV" in str(second)


@pytest.mark.parametrize("fault", ["noise", "child", "daemon"])
def test_noise_and_children_do_not_matter(bench: Bench, fault: str) -> None:
    ended = bench.run(*trusting("dryrun --output-format json"), bench.repo(fault, "init"))

    assert (ended.status, ended.errors) == (ExitCode.OK, ())
    assert json.loads(ended.stdout)["model_class"] == "TarnModel"


def test_a_fix_that_cannot_be_verified_says_why(bench: Bench) -> None:
    repo = bench.repo("exit_3", "forward")
    modeling = repo / "modeling_tarn.py"
    text = modeling.read_text()
    # The norm as it is not recognised: there is something to fix.
    modeling.write_text(text.replace("_supports_attention_backend = True", "pass"))
    ended = bench.run(*trusting("fix"), repo)

    assert ended.status in (ExitCode.OK, ExitCode.FINDINGS)
    assert "exit status 3" in ended.stdout and NAMED in ended.stdout
    assert not [line for line in (*ended.errors, ended.stdout) if "Traceback" in line]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_outlives_the_command(bench: Bench, number: signal.Signals) -> None:
    """Ctrl-C, and ends of the command that leave it no time to clean up."""
    reached = bench.folder / "reached"
    repo = bench.repo("hang", "init")
    modeling = repo / "modeling_tarn.py"
    start = f"{FAULTS['child']}\n    open({str(reached)!r}, 'w')\n    import time"
    modeling.write_text(modeling.read_text().replace("import time", start))
    with bench.start(*trusting("dryrun"), repo) as process:
        _until(reached.exists)
        assert len(bench.processes()) > 2
        process.send_signal(number)
        _, errors = process.communicate(timeout=30)
    _until(lambda: not bench.processes())

    if number is signal.SIGINT:
        assert process.returncode == 130
        assert errors.strip() == "modelcheck: error: interrupted"  # after click's line end


def _until(done, seconds: float = 60.0) -> None:  # type: ignore[no-untyped-def]
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.05)
