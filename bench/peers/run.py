#!/usr/bin/env python3
"""larder and its peers on one machine, one server, the same objects, in one run: ./dev bench peers (docs/benchmarks.md).

Every run of a peer is a line in a file in the cache folder as soon as it ended, so that a run that was cut off goes on
where it was. What comes out is computed from that file alone.
"""

import argparse
import datetime
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

import programs
import report
import scenarios
from programs import BUILT, say
from servers import RealServer, Simulator

QUICK = {"kube": [10_000], "simulator": [20_000]}
FULL = {"kube": [10_000, 50_000, 100_000], "simulator": [20_000, 1_000_000]}
# Past this, one round, and only of who can: nobody needs the median of a thing that takes minutes.
MANY = 200_000
# A peer's variants have one round, and none past this: how they compare is seen where a sync takes seconds.
VARIANTS_UP_TO = 50_000
ROUNDS = 5


def arguments():
    parser = argparse.ArgumentParser(prog="./dev bench peers", description=__doc__.split("\n\n")[0])
    parser.add_argument("--quick", action="store_true", help="the main peers, at few objects, in five to ten minutes")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON instead of tables")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"runs of everything ({ROUNDS})")
    parser.add_argument("--kube", metavar="N,N", help="numbers of pods on the real server; empty: none")
    parser.add_argument("--simulator", metavar="N,N", help="numbers of pods on the simulator; empty: none")
    parser.add_argument("--only", metavar="NAME,NAME", help="scenarios: " + ", ".join(s.name for s in scenarios.SCENARIOS))
    parser.add_argument("--seconds", type=float, help="stop after this time; the next call goes on")
    parser.add_argument("--results", type=pathlib.Path, help="the file of runs, instead of the one in the cache folder")
    parser.add_argument("--fresh", action="store_true", help="forget earlier runs")
    parser.add_argument("--summary", type=pathlib.Path, help="also write the summary as JSON here")
    parser.add_argument("--tables", type=pathlib.Path, nargs="+", metavar="FILE", help="also write the tables into these documents")
    parser.add_argument("--report", action="store_true", help="measure nothing, summarise what was measured")
    return parser.parse_args()


def spin():
    """Seconds that a fixed loop takes: more than usual, and somebody else is using the machine."""
    begun, total = time.perf_counter(), 0
    for number in range(2_000_000):
        total += number & 7
    return time.perf_counter() - begun


class Results:
    """The file of runs."""

    def __init__(self, path, fresh):
        self.path, self.versions = path, programs.versions()
        lines = path.read_text().splitlines() if path.exists() and not fresh else []
        records = [json.loads(line) for line in lines]
        if records and records[0]["versions"] != self.versions:
            say(f"other versions than those in {path}: beginning anew")
            records = []
        if not records:
            path.parent.mkdir(parents=True, exist_ok=True)
            header = {"versions": self.versions, "machine": machine(), "began": datetime.date.today().isoformat()}
            path.write_text(json.dumps(header) + "\n")
            records = [header]
        self.header, self.runs = records[0], records[1:]
        # One that was disturbed is run again.
        self.done = {self.key(run) for run in report.calm(self.runs)}

    @staticmethod
    def key(run):
        return tuple(run[name] for name in ("server", "objects", "scenario", "peer", "round"))

    def add(self, run):
        self.runs.append(run)
        self.done.add(self.key(run))
        with self.path.open("a") as file:
            file.write(json.dumps(run) + "\n")


def machine():
    memory = int(open("/proc/meminfo").readline().split()[1]) / (1 << 20)
    model = [line for line in open("/proc/cpuinfo") if line.startswith("model name")]
    return {"cores": os.cpu_count(), "memory_gib": round(memory), "cpu": model[0].split(":")[1].strip() if model else "?"}


class Bench:
    def __init__(self, options, results, peers):
        self.options, self.results = options, results
        self.peers = peers
        self.deadline = time.monotonic() + options.seconds if options.seconds else None
        wanted = options.only.split(",") if options.only else [s.name for s in scenarios.SCENARIOS]
        self.scenarios = [s for s in scenarios.SCENARIOS if s.name in wanted]
        if unknown := set(wanted) - {s.name for s in self.scenarios}:
            raise SystemExit(f"no scenario {', '.join(unknown)}; ./dev bench peers --help lists them")

    def plan(self, server):
        """What is still to be run on this server: round by round, each in an order of its own, the same every time."""
        runs = []
        for number in range(1 if server.objects > MANY else self.options.rounds):
            for scenario in self.scenarios:
                if server.name not in scenario.servers or server.objects > scenario.up_to:
                    continue
                if number and self.options.quick and scenario.once_if_quick:
                    continue
                peers = [peer for peer in self.peers if scenario.peers(peer) and server.name in peer.servers
                         and (peer.main or (number == 0 and server.objects <= VARIANTS_UP_TO))]
                # Not in turn: a server's garbage is collected in the next one's time, so nobody may always come after the same.
                random.Random(f"{scenario.name} {number}").shuffle(peers)
                for peer in peers:
                    run = {"server": server.name, "objects": server.objects, "scenario": scenario.name,
                           "peer": peer.name, "round": number}
                    if Results.key(run) not in self.results.done:
                        runs.append((run, scenario, peer))
        return runs

    def measure(self, server):
        plan = self.plan(server)
        if not plan:
            return True
        state = {"larder": self.peers[0]}
        try:
            with server:
                for run, scenario, peer in plan:
                    if self.deadline and time.monotonic() > self.deadline:
                        say("the time is up; the next call goes on from here")
                        return False
                    self.once(server, run, scenario, peer, state)
        finally:
            scenarios.end(state)
        return True

    def once(self, server, run, scenario, peer, state):
        say(f"{run['server']} {run['objects']}, round {run['round'] + 1}: {run['scenario']}, {run['peer']}")
        run["spin_before"] = spin()
        try:
            run["figures"] = scenario.function(server, peer, state)
        except (scenarios.Failed, subprocess.SubprocessError) as failure:
            say(f"failed: {failure}")
            run["failed"] = str(failure)
        run["spin_after"] = spin()
        self.results.add(run)


def sizes(text, otherwise):
    return otherwise if text is None else [int(word.replace("_", "")) for word in text.split(",") if word]


def main():
    options = arguments()
    # So that servers and temporary files go away then, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    BUILT.mkdir(parents=True, exist_ok=True)
    path = options.results or BUILT / ("results-quick.jsonl" if options.quick else "results.jsonl")
    results = Results(path, options.fresh)
    if not options.report:
        peers, skipped = programs.all_peers()
        for name, why in skipped.items():
            say(f"without {name}: {why}")
        if options.quick:
            peers = [peer for peer in peers if peer.main]
        bench = Bench(options, results, peers)
        defaults = QUICK if options.quick else FULL
        servers = [Simulator(count) for count in sizes(options.simulator, defaults["simulator"])]
        kube = sizes(options.kube, defaults["kube"])
        if kube and subprocess.run([programs.REPOSITORY / "kube" / "kube.sh", "build"]).returncode:
            say("without the real server: it could not be built")
            kube = []
        for server in [RealServer(count) for count in kube] + servers:
            if not bench.measure(server):
                break
    summary = report.summarise(results.header, results.runs)
    if options.summary:
        options.summary.write_text(json.dumps(summary, indent=1) + "\n")
    for document in options.tables or []:
        report.fill_tables(summary, document)
    print(json.dumps(summary, indent=1) if options.json else report.text(summary))


if __name__ == "__main__":
    sys.exit(main())
