"""The two servers that the peers are run against, with the same generated pods in both."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.request

from programs import CACHE, LARDER, LARDER_PEER, REPOSITORY, say


def cpu_of(pid):
    """Seconds that a process used so far, by its threads' own clocks: /proc/PID/stat counts in hundredths."""
    total = 0
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        try:
            total += int((task / "schedstat").read_text().split()[0])
        except (FileNotFoundError, ProcessLookupError):
            pass  # a thread that ended
    return total / 1e9


class Server:
    def cpu(self):
        return sum(cpu_of(pid) for pid in self.pids())

    def settle(self):
        """Waits until it has done what was asked of it before, so that this is not counted as the next client's."""
        self.rest()
        if self.collect_garbage():
            self.rest()

    def rest(self):
        patience = time.monotonic() + 30
        while time.monotonic() < patience:
            before = self.cpu()
            time.sleep(0.5)
            if self.cpu() - before < 0.025:  # a twentieth of a core
                return

    def collect_garbage(self):
        """What clients before left is collected in nobody's time. False: there is nothing to collect."""
        return False

    def write(self, count, mark, rate=0):
        """Patches `count` pods; the last patch carries the mark."""
        command = [LARDER_PEER, "write", "--kubeconfig", self.kubeconfig, "--count", str(count)]
        subprocess.run([*command, "--pods", str(self.objects), "--rate", str(rate), "--mark", mark], check=True)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()


class RealServer(Server):
    """kube-apiserver and etcd. Their data stay in the cache folder, so that pods are loaded once."""

    name = "kube"

    def __init__(self, objects):
        self.objects = objects
        self.folder = CACHE / "kube" / f"bench-{objects}"
        self.kubeconfig = str(self.folder / "kubeconfig")

    def script(self, *words):
        subprocess.run([REPOSITORY / "kube" / "kube.sh", *words], check=True, stdout=subprocess.DEVNULL)

    def take_over(self):
        """The pods of a smaller server are the first of a larger one's: they need not be loaded a second time."""
        sizes = [int(folder.name.removeprefix("bench-")) for folder in self.folder.parent.glob("bench-*")]
        smaller = max((size for size in sizes if size < self.objects), default=None)
        if smaller and not self.folder.exists():
            begun = self.folder.with_name(f"begun-{self.objects}")  # a copy that was cut off is none
            shutil.rmtree(begun, ignore_errors=True)
            shutil.copytree(self.folder.with_name(f"bench-{smaller}"), begun,
                            ignore=shutil.ignore_patterns("kubeconfig*", "ports", "*.pid", "*.log"))
            begun.rename(self.folder)

    def start(self):
        self.take_over()
        self.script("up", self.folder)
        subprocess.run([LARDER_PEER, "load", "--kubeconfig", self.kubeconfig, "--pods", str(self.objects)], check=True)
        # A server that has just written everything is not the one that a client meets.
        self.expire()

    def stop(self):
        self.script("down", self.folder)

    def pids(self):
        return [(self.folder / f"{program}.pid").read_text().strip() for program in ("apiserver", "etcd")]

    def expire(self):
        """A restarted API server knows no version from before."""
        self.script("stop", self.folder, "apiserver")
        self.script("start", self.folder, "apiserver")
        self.warm_up()

    def warm_up(self):
        subprocess.run(["curl", "-sf", *self.curl(), "-o", "/dev/null", f"{self.url()}/api/v1/pods?resourceVersion=0"], check=True)

    def collect_garbage(self):
        # The profiler's way to ask for it. With 50,000 pods a collection takes both cores for a second: it would double
        # the time of whoever it happens to, and it happens to whoever comes when the heap has just doubled.
        subprocess.run(["curl", "-sf", *self.curl(), "-o", "/dev/null", f"{self.url()}/debug/pprof/heap?gc=1"], check=True)
        return True

    def url(self):
        return re.search(r'server: "([^"]+)"', pathlib.Path(self.kubeconfig).read_text())[1]

    def token(self):
        return re.search(r"token: ([^ },]+)", pathlib.Path(self.kubeconfig).read_text())[1]

    def curl(self):
        return ["--cacert", str(self.folder / "pki" / "ca.crt"), "-H", f"Authorization: Bearer {self.token()}"]


class Simulator(Server):
    """larder's own, which takes the server's cost away: no TLS, no etcd, lists of prepared bytes, JSON only."""

    name = "simulator"

    def __init__(self, objects):
        self.objects = objects

    def start(self):
        say(f"a simulator with {self.objects} pods")
        self.folder = tempfile.TemporaryDirectory()
        self.kubeconfig = os.path.join(self.folder.name, "kubeconfig")
        self.process = subprocess.Popen(
            [LARDER, "simulate", "--objects", str(self.objects), "--kubeconfig", self.kubeconfig],
            stdout=subprocess.PIPE, text=True)
        self.address = self.process.stdout.readline().strip()
        if not self.address:
            raise SystemExit("the simulator did not start")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=60)
        self.folder.cleanup()

    def pids(self):
        return [self.process.pid]

    def post(self, path, body):
        request = urllib.request.Request(f"{self.address}/simulator/{path}", json.dumps(body).encode())
        urllib.request.urlopen(request).read()

    def expire(self):
        self.post("faults", {"type": "expire_history", "resource": "pods"})

    def url(self):
        return self.address

    def curl(self):
        return []

    def burst(self, count, mark):
        """The simulator changes its own pods, faster than anybody could ask it to."""
        self.post("churn", {"rate": 1e6, "create": 0, "update": 1, "delete": 0, "limit": count})
        while True:
            with urllib.request.urlopen(f"{self.address}/simulator/churn") as answer:
                if not json.load(answer)["running"]:
                    break
            time.sleep(0.02)
        self.write(0, mark)
