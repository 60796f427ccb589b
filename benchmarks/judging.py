"""The time of a judge run, compared with the time that its model takes to answer.

The model is a loopback server in a process of its own. At best, a run always has `threads` requests
in progress, each of `LATENCY` seconds; any further time is spent by Ringside, Celery, the SDK,
PostgreSQL and Redis, all on this machine.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import redis
from celery import current_app
from django.conf import settings
from django.utils import timezone

from arena.models import Arena, Candidate, Comparison, Prompt, Response, Run
from arena.services.arenas import create_arena
from arena.services.pairs import sync_pairs
from arena.services.runs import cancel_run, order_run
from arena.tasks import wake_workers
from benchmarks.results import Line, machine, targets
from benchmarks.services import LATENCY, MODEL, SLOW, WAITING
from benchmarks.serving import PATIENCE, REPOSITORY
from benchmarks.tasks import ask
from judges.services.planning import OrderOptions, prepare_order
from judges.services.registry import spec_named

THREADS = 32
CANDIDATES = 5
PAIRS = CANDIDATES * (CANDIDATES - 1) // 2
MOST_ALONE, MOST_TOGETHER = 1.35, 1.6
LEAST_BESIDE = 0.9
CELERY = [sys.executable, "-m", "celery", "-A", "arena.celery"]


@dataclass(frozen=True)
class RunTime:
    """Seconds of one run, CPU seconds of its workers, and the numbers of calls and workers."""

    calls: int
    workers: int
    seconds: float
    cpu: float

    @property
    def times(self) -> float:
        """The run's time as a multiple of calls x latency / threads."""
        return self.seconds / (self.calls * LATENCY / (THREADS * self.workers))


# -- What it runs on -------------------------------------------------------------------------------


class Workers:
    """Celery workers with `THREADS` threads each, and the beat that schedules sweeps."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._stack = ExitStack()
        self._pids: list[int] = []

    def __enter__(self) -> "Workers":
        schedule = str(self.folder / "schedule")
        self._start("beat", f"--schedule={schedule}", "--pidfile=")
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.close()

    def add(self) -> None:
        """Start another worker, and wait until it is ready."""
        name = f"--hostname=bench{len(self._pids)}@localhost"
        pool = ["--pool=threads", f"--concurrency={4 * THREADS}", "--queues=calls"]
        self._pids.append(self._start("worker", name, *pool, "--loglevel=WARNING").pid)
        wait_for(lambda: len(current_app.control.ping(timeout=0.5)) == len(self._pids))

    def cpu(self) -> float:
        """CPU seconds of the workers so far."""
        return sum(map(_cpu_of, self._pids))

    def _start(self, *command: str) -> subprocess.Popen[bytes]:
        log = self.folder / f"{command[0]}-{len(self._pids)}.txt"
        out = self._stack.enter_context(log.open("wb"))
        process = subprocess.Popen([*CELERY, *command], cwd=REPOSITORY, stdout=out, stderr=out)
        self._stack.callback(process.wait, PATIENCE)
        self._stack.callback(process.terminate)
        return process


def _cpu_of(pid: int) -> float:
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def wait_for(what: Callable[[], bool], patience: float = PATIENCE) -> None:
    """Check twenty times a second until `what` is true; raises RuntimeError after `patience`."""
    deadline = time.monotonic() + patience
    while not what():
        if time.monotonic() > deadline:
            raise RuntimeError("It took too long.")
        time.sleep(0.05)


# -- What is measured ------------------------------------------------------------------------------


def make_arena(name: str, comparisons: int) -> Arena:
    """Create an arena of five candidates, each with an answer of a few hundred words per prompt."""
    arena = create_arena(slug=name, name=name)
    candidates = [Candidate.objects.create(arena=arena, name=f"c{i}") for i in range(CANDIDATES)]
    prompts = Prompt.objects.bulk_create(
        Prompt(arena=arena, external_id=str(i), text=f"Explain {i} to a child. " * 8)
        for i in range(comparisons // PAIRS)
    )
    Response.objects.bulk_create(
        Response(candidate=candidate, prompt=prompt, text=f"Answer {prompt.pk} of {i}. " * 80)
        for prompt in prompts
        for i, candidate in enumerate(candidates)
    )
    sync_pairs(arena=arena)
    return arena


def order(name: str, comparisons: int, endpoint: str = "local") -> Run:
    """Order a run in an arena of its own."""
    arena = make_arena(name, comparisons)
    wanted = OrderOptions(comparisons // PAIRS, "all")
    specs = [spec_named(f"{endpoint}:{MODEL}")]
    prepared = prepare_order(arena=arena, specs=specs, options=wanted)
    return order_run(order=prepared, cap=10**12, now=timezone.now())


def judge(name: str, comparisons: int, workers: Workers, count: int) -> RunTime:
    """Order a run, queue its calls, and wait until it is done."""
    run = order(name, comparisons)
    began, cpu = time.monotonic(), workers.cpu()
    wake_workers()
    wait_for(lambda: Run.objects.get(pk=run.pk).state != Run.State.OPEN, patience=600)
    seconds = time.monotonic() - began
    _check(run, comparisons)
    return RunTime(2 * comparisons, count, seconds, workers.cpu() - cpu)


def _check(run: Run, comparisons: int) -> None:
    """Check that nothing was judged more than once, and nothing was left out."""
    run.refresh_from_db()
    settled = run.judgements.exclude(state="waiting").count()
    asked = sum(run.calls.values_list("requests", flat=True))
    votes = Comparison.objects.filter(judgement__run=run, votes__isnull=False).count()
    if (run.state, settled, asked) != (Run.State.DONE, comparisons, 2 * comparisons) or not votes:
        raise RuntimeError(f"{run.state}: {settled} settled, {asked} requests, {votes} votes.")


def bare(calls: int, workers: Workers) -> RunTime:
    """Send the same requests from tasks that do nothing else: Celery with the SDK, no database."""
    client = redis.Redis.from_url(settings.CELERY_BROKER_URL)
    began, cpu = time.monotonic(), workers.cpu()
    for _ in range(calls):
        ask.apply_async(queue="calls")
    wait_for(lambda: not client.llen("calls") and not client.hlen("unacked"), patience=600)
    return RunTime(calls, 1, time.monotonic() - began, workers.cpu() - cpu)


def judge_beside(name: str, comparisons: int, workers: Workers) -> RunTime:
    """Judge while an extremely slow model gets as many requests as allowed."""
    slow = order(f"{name}-slow", PAIRS, "slow")
    wake_workers()
    wait_for(lambda: slow.calls.filter(state="running").count() == WAITING)
    run_time = judge(name, comparisons, workers, 1)
    cancel_run(run_id=slow.pk, now=timezone.now())
    return run_time


def measure(comparisons: int) -> dict[str, RunTime]:
    """Measure one worker, Celery alone in it, the worker next to a slow model, then two workers."""
    with tempfile.TemporaryDirectory() as folder, Workers(Path(folder)) as workers:
        workers.add()
        judge("warm-up", PAIRS * 4, workers, 1)
        timings = {"one": judge("one", comparisons, workers, 1)}
        timings["bare"] = bare(comparisons, workers)
        timings["beside"] = judge_beside("beside", comparisons, workers)
        workers.add()
        judge("warm-up-two", PAIRS * 8, workers, 2)
        return timings | {"two": judge("two", comparisons, workers, 2)}


# -- The report ------------------------------------------------------------------------------------


def lines(timings: dict[str, RunTime]) -> list[Line]:
    alone, together = timings["one"], timings["two"]
    speed = alone.seconds / timings["beside"].seconds
    return [
        _line(f"{alone.calls:,} calls by one worker of {THREADS} threads", alone, MOST_ALONE),
        _line(
            f"{together.calls:,} calls by two workers of {THREADS} threads",
            together,
            MOST_TOGETHER,
        ),
        Line(
            f"Speed of a run while {WAITING} calls of {SLOW:g} s wait for another model",
            f"at least {LEAST_BESIDE:.0%}",
            f"{speed:.0%}",
            speed >= LEAST_BESIDE,
        ),
    ]


def _line(what: str, run_time: RunTime, most: float) -> Line:
    least = run_time.seconds / run_time.times
    what = f"{what}, compared with calls x {LATENCY:g} s / threads = {least:.2f} s"
    return Line(what, f"at most {most:g} x", f"{run_time.times:.2f} x", run_time.times <= most)


def table(timings: dict[str, RunTime]) -> str:
    names = {
        "one": "A run by one worker",
        "beside": f"The same beside {WAITING} calls that wait for a slow model",
        "bare": "The same requests by one worker, in tasks that only call (Celery, the SDK)",
        "two": "A run by two workers",
    }
    return "\n".join(
        [
            f"{machine()}; PostgreSQL, Redis, the model server and the workers share the machine."
            " Each comparison is judged in both orders; the time is from the first queued task to"
            " the end of the run.",
            "",
            *targets(lines(timings)),
            "",
            "| | s | x calls x latency / threads | workers' CPU per call, ms |",
            "|---|---:|---:|---:|",
            *(_row(names[key], run_time) for key, run_time in timings.items()),
        ]
    )


def _row(name: str, run_time: RunTime) -> str:
    per_call = 1000 * run_time.cpu / run_time.calls
    return f"| {name} | {run_time.seconds:.1f} | {run_time.times:.2f} | {per_call:.1f} |"
