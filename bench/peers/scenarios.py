"""What is measured. Each scenario is a function that runs once, for one peer, and returns its figures."""

import atexit
import itertools
import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import tempfile
import time

from programs import BUILT, LARDER_PEER, LIMITS

HOLD = 1.0  # seconds from synced to steady memory
marks = (f"mark-{os.getpid()}-{number}" for number in itertools.count())


class Failed(Exception):
    pass


def leave_some_memory():
    """In the child: a peer that wants more than there is fails, instead of taking the machine with it."""
    lines = dict(line.split(":") for line in open("/proc/meminfo"))
    most = int(lines["MemAvailable"].split()[0]) * 1024 * 9 // 10
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))


class Run:
    """A peer's process. Its lines come one by one; the server's CPU is read as soon as one is there."""

    def __init__(self, server, command, environment=None):
        self.server, self.command = server, command
        self.server_cpu = server.cpu() if server else 0
        start = {"BENCH_START": str(time.time_ns())}
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=leave_some_memory,
                                        env={**os.environ, **(environment or {}), **start})
        atexit.register(self.process.kill)  # which does nothing to a process that ended

    def name(self):
        return pathlib.Path(self.command[0]).name

    def line(self):
        text = self.process.stdout.readline()
        if not text:
            raise Failed(f"{self.name()} ended with {self.process.wait()}")
        figures = json.loads(text)
        if "seconds" in figures and self.server:
            figures["server_cpu_seconds"] = self.server.cpu() - self.server_cpu
        return figures

    def end(self):
        if self.process.wait(timeout=600):
            raise Failed(f"{self.name()} ended with {self.process.returncode}")


def option(peer, name, value):
    """One dash in Go, two elsewhere."""
    dashes = "-" if "-kubeconfig" in peer else "--"
    go_duration = "s" if dashes == "-" and name == "hold" else ""
    return [dashes + name, f"{value}{go_duration}"]


def check_objects(figures, server):
    if figures.get("objects", server.objects) != server.objects:
        raise Failed(f"{figures['objects']} objects instead of {server.objects}")


def sync(server, peer, *more):
    server.settle()
    return run_sync(server, peer, *more)


def run_sync(server, peer, *more):
    command = peer.command(server)
    limit = command[0] == "curl"
    if not limit:
        command += [*option(command, "hold", HOLD), *more]
    run = Run(server, command, peer.environment)
    figures = run.line()
    if not limit:
        figures |= run.line()
    run.end()
    check_objects(figures, server)
    return figures


def first(server, peer, state):
    """A first sync. To a peer without a store this is its restart, too."""
    return sync(server, peer)


def stored(server, state):
    """larder's store of this server, up to date."""
    if "folder" not in state:
        state["folder"] = pathlib.Path(tempfile.mkdtemp(prefix="larder-peers-", dir=BUILT))
    store, mark = str(state["folder"] / "store"), next(marks)
    server.write(0, mark)
    run_sync(server, state["larder"], "--store", store, "--until", mark)  # nobody reads its figures
    return store


def restart(server, peer, state):
    return sync(server, peer, "--store", stored(server, state))


def restart_changed(server, peer, state):
    store, mark, count = stored(server, state), next(marks), max(1, server.objects // 100)
    server.write(count, mark)
    return sync(server, peer, "--store", store, "--until", mark, "--handled", str(count))


def restart_expired(server, peer, state):
    store, mark, count = stored(server, state), next(marks), max(1, server.objects // 100)
    server.write(count, mark)
    server.expire()
    return sync(server, peer, "--store", store, "--until", mark, "--handled", str(count))


def follow(server, peer, write, stopped=False):
    """What a stream of changes costs; with `stopped`, the peer finds all of them waiting for it."""
    mark = next(marks)
    command = peer.command(server)
    run = Run(server, [*command, *option(command, "follow", mark)], peer.environment)
    while "ready" not in run.line():
        pass
    if stopped:
        run.process.send_signal(signal.SIGSTOP)
        write(mark)
    server_cpu, begun = server.cpu(), time.time()
    if stopped:
        run.process.send_signal(signal.SIGCONT)
    else:
        write(mark)
    figures = run.line()
    figures["server_cpu_seconds"] = server.cpu() - server_cpu
    figures["seconds"] = figures.pop("followed_at") - begun
    run.process.kill()
    run.process.wait()
    return figures


def steady(server, peer, state):
    """Changes at a rate that everybody can follow: how late they come, what each costs."""
    rate, seconds = 100, 5
    figures = follow(server, peer, lambda mark: server.write(rate * seconds, mark, rate))
    figures["cpu_us_per_event"] = 1e6 * figures["cpu_seconds"] / (rate * seconds)
    return figures


def burst(server, peer, state):
    """Many changes at once: how many a second reach the handler."""
    count = 10_000
    figures = follow(server, peer, lambda mark: server.burst(count, mark), stopped=True)
    del figures["delay_p50_ms"], figures["delay_p99_ms"]
    figures["events_per_second"] = count / figures["seconds"]
    figures["cpu_us_per_event"] = 1e6 * figures["cpu_seconds"] / count
    return figures


def reads(server, peer, state):
    command = peer.command(server)
    run = Run(server, [command[0], "reads", *command[2:]], peer.environment)
    figures = run.line()
    run.end()
    return figures


def ten(server, peer, state):
    """Ten controllers restart at once: the time until the last has synced, and what all of them cost together."""
    folders = []
    if peer.name == "larder":
        source = stored(server, state)
        folders = [tempfile.mkdtemp(prefix="larder-peers-", dir=BUILT) for _ in range(10)]
        for folder in folders:
            shutil.copytree(source, f"{folder}/store")
    server.settle()
    server_cpu, runs = server.cpu(), []
    for number in range(10):
        more = ["--store", f"{folders[number]}/store"] if folders else []
        runs.append(Run(None, [*peer.command(server), *more], peer.environment))
    figures = {"seconds": 0, "cpu_seconds": 0, "received_bytes": 0}
    for run in runs:
        line = run.line()
        check_objects(line, server)
        figures["seconds"] = max(figures["seconds"], line["seconds"])
        for name in ("cpu_seconds", "received_bytes"):
            figures[name] += line[name]
    figures["server_cpu_seconds"] = server.cpu() - server_cpu
    for run in runs:
        run.line()
        run.end()
    for folder in folders:
        shutil.rmtree(folder)
    return figures


def queue(server, peer, state):
    """Add, Get, Done, on one thread and on two; of five times the best, because a fifth of a second is soon disturbed."""
    program = peer.command(server)[0]
    dashes = "--" if program == LARDER_PEER else "-"
    figures = {"cycles_per_second_1": 0, "cycles_per_second_2": 0}
    for _ in range(5):
        for threads in (1, 2):
            run = Run(None, [program, "queue", f"{dashes}cycles", "1000000", f"{dashes}threads", str(threads)])
            name, cycles = f"cycles_per_second_{threads}", run.line()["cycles_per_second"]
            run.end()
            figures[name] = max(figures[name], cycles)
    return figures


def limits(server, peer, state):
    """simdjson and RocksDB alone, on the list that the server sends."""
    with tempfile.TemporaryDirectory(dir=BUILT) as folder:
        subprocess.run(["curl", "-sf", *server.curl(), "-o", f"{folder}/list.json",
                        f"{server.url()}/api/v1/pods?resourceVersion=0"], check=True)
        run = Run(None, [LIMITS, f"{folder}/list.json", f"{folder}/rocksdb"])
        figures = run.line()
        run.end()
    return figures


def end(state):
    if "folder" in state:
        shutil.rmtree(state["folder"])


READERS = ("larder", "client-go, JSON")  # in memory it is all one how an object came


class Scenario:
    def __init__(self, function, peers, servers=("kube", "simulator"), up_to=10**7, once_if_quick=True):
        self.name, self.function, self.once_if_quick = function.__name__, function, once_if_quick
        self.peers = peers  # a predicate on a peer
        self.servers, self.up_to = servers, up_to


def of(*names):
    return lambda peer: peer.name in names


MAIN = ("larder", "client-go, JSON", "client-go, protobuf", "controller-runtime", "kube-rs")
# restart_expired is the last: it needs the server restarted.
SCENARIOS = [
    Scenario(first, lambda peer: True, once_if_quick=False),
    Scenario(restart, of("larder"), once_if_quick=False),
    Scenario(restart_changed, of("larder"), once_if_quick=False),
    # What a change or a read costs is measured where a sync is quick; a delay on a server that has its own, a read without.
    Scenario(steady, of(*MAIN), servers=("kube",), up_to=20_000),
    # The real server makes changes too slowly, and cuts off who does not read them.
    Scenario(burst, of(*MAIN), servers=("simulator",), up_to=20_000),
    Scenario(reads, of(*READERS), servers=("simulator",), up_to=20_000),
    Scenario(ten, of("larder", "client-go, protobuf", "kube-rs"), servers=("kube",), up_to=20_000),
    Scenario(queue, of("larder", "client-go, JSON"), servers=("simulator",), up_to=20_000),
    Scenario(limits, of("larder"), servers=("simulator",), up_to=20_000),
    Scenario(restart_expired, of("larder"), once_if_quick=False),
]
