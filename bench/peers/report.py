"""From single runs to medians, spreads, ratios and tables."""

import re
import statistics

from programs import STRIPPED

FLOOR = "first sync: time, against curl"
BURST = "burst: events a second, against client-go"
READER = "get of a hot object in a pass over many, with a Reader"
# Where larder's figure has another name than that of the peers: their pointers are the garbage collector's, a Reader's live as long as it does.
OURS = {READER: "reader_get_hot_ns"}
# Rows of larder and its peers with a transform that drops managedFields.
WITHOUT = "without managedFields"
# The fastest form that curl was sent: protobuf where the server has it.
AGAINST = {FLOOR: "curl", BURST: "client-go"}
# What is asked of larder against the best peer of the same run, at 100,000 pods: (what, scenario, figure, how many times better).
ASKED = [
    ("restart, nothing changed: time to synced", "restart", "seconds", 100),
    ("restart, nothing changed: bytes received", "restart", "received_bytes", 1000),
    ("restart, nothing changed: server CPU", "restart", "server_cpu_seconds", 100),
    ("restart, 1 % changed: time to synced", "restart_changed", "seconds", 30),
    ("restart, 1 % changed: server CPU", "restart_changed", "server_cpu_seconds", 10),
    ("restart after 410, 1 % changed: time to synced", "restart_expired", "seconds", 3),
    ("restart after 410, 1 % changed: client CPU", "restart_expired", "cpu_seconds", 5),
    ("restart after 410, 1 % changed: server CPU", "restart_expired", "server_cpu_seconds", 2),
    ("first sync: time", "first", "seconds", None),
    (FLOOR, "first", "seconds", 0.87),
    ("first sync: client CPU", "first", "cpu_seconds", 2),
    ("first sync: server CPU", "first", "server_cpu_seconds", None),
    ("first sync: peak memory", "first", "peak_mib", 12),
    ("steady memory", "first", "steady_mib", 12),
    (f"first sync {WITHOUT}: time", "first", "seconds", None),
    (f"first sync {WITHOUT}: client CPU", "first", "cpu_seconds", 2),
    (f"first sync {WITHOUT}: peak memory", "first", "peak_mib", 12),
    (f"steady memory {WITHOUT}", "first", "steady_mib", 12),
    ("steady changes: client CPU an event", "steady", "cpu_us_per_event", None),
    ("steady changes: delay, median", "steady", "delay_p50_ms", None),
    ("steady changes: delay, 99 %", "steady", "delay_p99_ms", None),
    ("burst: events a second", "burst", "events_per_second", None),
    (BURST, "burst", "events_per_second", 2),
    ("get of a hot object", "reads", "get_hot_ns", 1),
    (READER, "reads", "get_hot_ns", 1),
    ("get of a hot object by namespace and name, through the lister", "reads", "lister_get_hot_ns", 1),
    ("get of any object", "reads", "get_any_ns", None),
    ("by index, each object", "reads", "by_index_us_per_object", None),
    ("label selector in a namespace", "reads", "select_in_namespace_ms", None),
    ("queue cycle, one thread", "queue", "cycles_per_second_1", 1),
    ("queue cycle, two threads", "queue", "cycles_per_second_2", 1),
    ("ten restart at once: until the last has synced", "ten", "seconds", None),
    ("ten restart at once: server CPU", "ten", "server_cpu_seconds", None),
]
MORE_IS_BETTER = ("events_per_second", "cycles_per_second_1", "cycles_per_second_2")


def calm(runs):
    """Without those beside which a fixed loop took over four times its least: somebody else used the machine."""
    if not runs:
        return []
    least = min(min(run["spin_before"], run["spin_after"]) for run in runs)
    return [run for run in runs if max(run["spin_before"], run["spin_after"]) <= 4 * least]


def summarise(header, all_runs):
    """One entry for each server, number of objects, scenario and peer: median, least and most of every figure."""
    groups, runs = {}, calm(all_runs)
    for run in runs:
        key = tuple(run[name] for name in ("server", "objects", "scenario", "peer"))
        groups.setdefault(key, []).append(run)
    entries = []
    for (server, objects, scenario, peer), members in groups.items():
        entry = {"server": server, "objects": objects, "scenario": scenario, "peer": peer, "runs": len(members)}
        good = [run["figures"] for run in members if "figures" in run]
        if failures := [run["failed"] for run in members if "failed" in run]:
            entry["failed"] = failures[-1]
        names = dict.fromkeys(name for figures in good for name, value in figures.items() if isinstance(value, (int, float)))
        entry["figures"] = {}
        for name in names:
            values = [figures[name] for figures in good if name in figures]
            entry["figures"][name] = {"median": statistics.median(values), "least": min(values), "most": max(values)}
        entries.append(entry)
    spins = [run[name] for run in runs for name in ("spin_before", "spin_after")]
    noise = {"least": min(spins), "median": statistics.median(spins), "most": max(spins)} if spins else {}
    summary = {**header, "spin_seconds": noise, "disturbed_runs": len(all_runs) - len(runs), "entries": entries}
    summary["ratios"] = ratios(entries)
    return summary


def ratios(entries):
    """How many times better larder is than the best peer. Less than 1: behind."""
    figures = {}
    for entry in entries:
        place = (entry["server"], entry["objects"], entry["scenario"])
        figures.setdefault(place, {})[entry["peer"]] = entry["figures"]
    out = []
    for server, objects in dict.fromkeys((entry["server"], entry["objects"]) for entry in entries):
        for what, scenario, figure, asked in ASKED:
            # To a peer without a store a restart is a first sync.
            theirs = "first" if scenario.startswith("restart") else scenario
            larder = "larder" + STRIPPED if WITHOUT in what else "larder"
            ours = figures.get((server, objects, scenario), {}).get(larder, {}).get(OURS.get(what, figure))
            peers = {peer: values[figure]["median"] for peer, values in figures.get((server, objects, theirs), {}).items()
                     if not peer.startswith("larder") and figure in values
                     and (peer.startswith(AGAINST[what]) if what in AGAINST else not peer.startswith("curl"))
                     # Who keeps less of an object syncs sooner, and is compared with who keeps as little.
                     and (scenario != "first" or peer.endswith(STRIPPED) == (WITHOUT in what))}
            if not ours or not peers:
                continue
            more = figure in MORE_IS_BETTER
            best = (max if more else min)(peers, key=peers.get)
            ratio = ours["median"] / peers[best] if more else peers[best] / max(ours["median"], 1e-9)
            out.append({"server": server, "objects": objects, "what": what, "figure": figure, "larder": ours["median"],
                        "best_peer": best, "peer": peers[best], "ratio": ratio, "asked": asked})
    return out


UNITS = [("mb_per_second", 1, "MB/s"), ("seconds", 1, "s"), ("_bytes", 1e-6, "MB"), ("_mib", 1, "MiB"), ("_ns", 1, "ns"), ("_us_per_event", 1, "us"),
         ("_us_per_object", 1, "us"), ("_ms", 1, "ms"), ("per_second", 1e-3, "k/s"), ("cycles_per_second_1", 1e-3, "k/s"),
         ("cycles_per_second_2", 1e-3, "k/s")]


def number(value):
    if value == 0:
        return "0"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) >= 0.001 else f"{value:.2e}"


def shown(figure, value):
    for suffix, factor, unit in UNITS:
        if figure.endswith(suffix):
            return f"{number(value * factor)} {unit}"
    return number(value)


def table(rows):
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)


SYNC_COLUMNS = ["seconds", "cpu_seconds", "server_cpu_seconds", "peak_mib", "steady_mib", "received_bytes", "handled"]


def text(summary):
    parts = [", ".join(f"{name} {version}" for name, version in summary["versions"].items() if version)]
    machine = summary["machine"]
    parts.append(f"{machine['cores']} cores ({machine['cpu']}), {machine['memory_gib']} GiB, {summary['began']}")
    if noise := summary["spin_seconds"]:
        parts.append(f"a fixed loop took {noise['median'] * 1e3:.0f} ms, {noise['least'] * 1e3:.0f} to {noise['most'] * 1e3:.0f}; "
                     f"{summary['disturbed_runs']} runs left out, beside which it took over four times the least")
    places = dict.fromkeys((entry["server"], entry["objects"]) for entry in summary["entries"])
    for server, objects in places:
        here = [entry for entry in summary["entries"] if (entry["server"], entry["objects"]) == (server, objects)]
        for scenario in dict.fromkeys(entry["scenario"] for entry in here):
            members = [entry for entry in here if entry["scenario"] == scenario]
            columns = list(dict.fromkeys(name for entry in members for name in entry["figures"]))
            if "handled" in columns and "peak_mib" in columns and scenario not in ("steady", "burst"):
                columns = SYNC_COLUMNS
            rows = [[f"{scenario}, {server}, {objects:,}", "runs", *columns]]
            for entry in members:
                cells = [spread(name, entry["figures"].get(name)) for name in columns]
                rows.append([entry["peer"], str(entry["runs"]), *(cells if entry["figures"] else ["failed"] + [""] * (len(cells) - 1))])
            parts.append(table(rows))
    rows = [["larder against the best peer", "larder", "peer", "best peer", "times better", "asked at 100,000"]]
    for ratio in summary["ratios"]:
        rows.append([f"{ratio['server']} {ratio['objects']:,}: {ratio['what']}", shown(ratio["figure"], ratio["larder"]),
                     shown(ratio["figure"], ratio["peer"]), ratio["best_peer"], number(ratio["ratio"]), str(ratio["asked"] or "")])
    if len(rows) > 1:
        parts.append(table(rows))
    return "\n\n".join(parts)


# In a document the table of one server stands between these lines.
BEGIN, END = re.compile(r"^<!-- peers: (\w+) (\d+) -->$"), "<!-- end -->"


def fill_tables(summary, path):
    """Writes the tables into a document, in place of those that are there. What was not measured stays as it is."""
    out, inside = [], False
    for line in path.read_text().splitlines():
        if line == END:
            inside = False
        if not inside:
            out.append(line)
        if place := BEGIN.match(line):
            rows = markdown(summary, place[1], int(place[2]))
            inside = bool(rows)
            out += rows
    path.write_text("\n".join(out) + "\n")


def markdown(summary, server, objects):
    rows = []
    for ratio in summary["ratios"]:
        if (ratio["server"], ratio["objects"]) == (server, objects):
            behind = "**behind:** " if ratio["ratio"] < 1 else ""
            cells = [behind + ratio["what"], shown(ratio["figure"], ratio["larder"]),
                     f"{shown(ratio['figure'], ratio['peer'])} ({ratio['best_peer']})", number(ratio["ratio"])]
            rows.append("| " + " | ".join(cells) + " |")
    head = [f"| {objects:,} pods, {'kube-apiserver ' + summary['versions']['kube-apiserver'] if server == 'kube' else 'simulator, JSON only'} "
            "| larder | best peer | times better |", "|---|---|---|---|"]
    return head + rows if rows else []


def spread(name, figure):
    if not figure:
        return "-"
    middle, least, most = (shown(name, figure[key]) for key in ("median", "least", "most"))
    if least == most:
        return middle
    return f"{middle} ({least.split(' ')[0]} to {most.split(' ')[0]})"
