"""Worker processes: warm, limited in time, replaced when they are lost."""

import os
import time
from contextlib import closing
from pathlib import Path

import pytest

from modelcheck.survey.pool import Failure, Setup, Task, run_tasks

JOBS = """
import os, time
from modelcheck.errors import BuildError
def pid(payload):
    print("noise")
    return {"pid": os.getpid()}
def hang(payload):
    open(payload["file"], "w").write(str(os.getpid()))
    time.sleep(600)
def die(payload):
    os._exit(7)
def refuse(payload):
    raise BuildError("it cannot be built")
def crash(payload):
    raise RuntimeError("a fault\\nof ours")
"""


@pytest.fixture
def setup(tmp_path):
    (tmp_path / "survey_jobs.py").write_text(JOBS)
    return Setup(modules=("survey_jobs",), env={"PYTHONPATH": str(tmp_path)})


def task(name, payload=None, timeout=30.0):
    return Task(name, f"survey_jobs:{name}", payload or {}, timeout)


def test_one_process_does_many_jobs(setup):
    answers = [done.answer for done in run_tasks([task("pid")] * 5, setup, 1)]
    assert len({answer["pid"] for answer in answers}) == 1
    assert answers[0]["pid"] != os.getpid()


def test_fresh_means_a_process_for_every_job(setup):
    fresh = Setup(setup.modules, env=setup.env, fresh=True)
    answers = [done.answer for done in run_tasks([task("pid")] * 3, fresh, 1)]
    assert len({answer["pid"] for answer in answers}) == 3


def test_a_hung_a_dead_and_a_failing_job_leave_the_others_alone(setup, tmp_path):
    hang = task("hang", {"file": str(tmp_path / "pid")}, timeout=1.0)
    tasks = [hang, task("pid"), task("die"), task("refuse"), task("crash"), task("pid")]
    answers = dict.fromkeys(("hang", "die", "refuse", "crash", "pid"))
    for done in run_tasks(tasks, setup, 1):
        answers[done.task.about] = done.answer
    assert answers["hang"] == Failure("no answer within 1 s; the worker was stopped", True)
    assert answers["die"] == Failure("the worker ended: exit status 7", True)
    assert answers["refuse"] == Failure("it cannot be built", False)
    assert answers["crash"].stopped
    assert answers["crash"].error.startswith("internal: RuntimeError: a fault of ours")
    assert answers["pid"]["pid"]
    assert not alive(int((tmp_path / "pid").read_text()))


def test_closing_stops_what_is_running(setup, tmp_path):
    pid = tmp_path / "pid"
    tasks = [task("pid"), task("hang", {"file": str(pid)}, timeout=600)]
    with closing(run_tasks(tasks, setup, 2)) as answers:
        next(answers)
        deadline = time.monotonic() + 30
        while not (pid.exists() and pid.read_text()) and time.monotonic() < deadline:
            time.sleep(0.05)
    assert not alive(int(pid.read_text()))


def test_a_python_that_is_not_there(setup):
    missing = Setup(setup.modules, python="/no/such/python")
    [done] = run_tasks([task("pid")], missing, 1)
    assert done.answer == Failure("/no/such/python: no such program", True)


def test_an_import_that_fails_is_the_answer_to_every_job():
    setup = Setup(modules=("no_such_module_of_ours",))
    answers = [done.answer for done in run_tasks([task("pid")] * 2, setup, 1)]
    assert all("no_such_module_of_ours" in answer.error for answer in answers)


def alive(pid):
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
