#!/usr/bin/env python3
"""Draws the pictures in docs/benchmarks.md from a summary that ./dev bench peers --summary FILE wrote.

    docs/pictures/peers.py docs/benchmarks.json

Writes docs/pictures/peers-NAME-light.svg and -dark.svg.
"""

import json
import math
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
WIDTH, HEIGHT, LEFT, TOP, BOTTOM, RIGHT = 760, 400, 88, 64, 52, 230
THEMES = {
    "light": {"page": "#ffffff", "text": "#1f2328", "quiet": "#59636e", "grid": "#d8dee4"},
    "dark": {"page": "#0d1117", "text": "#e6edf3", "quiet": "#9198a1", "grid": "#30363d"},
}
# Told apart without red and green, and by their marks.
COLOURS = {
    "larder": ("#0969da", "#58a6ff"),
    "client-go, protobuf": ("#953800", "#f0883e"),
    "client-go, JSON": ("#bf8700", "#e3b341"),
    "controller-runtime": ("#8250df", "#bc8cff"),
    "kube-rs": ("#bf3989", "#f778ba"),
    "curl, JSON": ("#6e7781", "#8b949e"),
}


def escape(text):
    return text.replace("&", "&amp;").replace("<", "&lt;")


def shown(value, unit):
    if unit == "MiB":
        return f"{value:,.0f} MiB"
    if unit == "s" and value < 1:
        return f"{value * 1e3:.3g} ms"
    if unit == "bytes":
        for limit, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
            if value >= limit:
                return f"{value / limit:.3g} {name}"
    return f"{value:.3g} {unit}"


class Picture:
    def __init__(self, theme, title, subtitle, height=HEIGHT):
        self.colours, self.dark = THEMES[theme], theme == "dark"
        self.height = height
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
            f'font-family="system-ui, sans-serif" font-size="13">',
            f'<rect width="100%" height="100%" fill="{self.colours["page"]}"/>']
        self.text(16, 26, title, "text", size=17, weight="600")
        self.text(16, 46, subtitle, "quiet")

    def text(self, x, y, words, colour="text", anchor="start", size=13, weight="400"):
        fill = self.colours.get(colour, colour)
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" fill="{fill}" text-anchor="{anchor}" font-size="{size}" '
                          f'font-weight="{weight}">{escape(words)}</text>')

    def line(self, x1, y1, x2, y2, colour, width=1.0):
        fill = self.colours.get(colour, colour)
        self.parts.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{fill}" '
                          f'stroke-width="{width}"/>')

    def colour(self, peer):
        return COLOURS[peer][self.dark]

    def save(self, name):
        theme = "dark" if self.dark else "light"
        (HERE / f"peers-{name}-{theme}.svg").write_text("\n".join(self.parts) + "\n</svg>\n")


def ticks(least, most):
    """Powers of ten around them."""
    low, high = math.floor(math.log10(least)), math.ceil(math.log10(most))
    return [10.0**power for power in range(low, high + 1)]


def lines(picture, series, unit):
    """series: peer -> [(objects, value)], both axes logarithmic."""
    points = [point for values in series.values() for point in values]
    xs, ys = sorted({x for x, _ in points}), ticks(min(y for _, y in points), max(y for _, y in points))
    right, bottom = WIDTH - RIGHT, picture.height - BOTTOM
    wide = math.log(xs[-1] / xs[0]) or 1
    tall = math.log(ys[-1] / ys[0]) or 1

    def x_of(value):
        return LEFT + 20 + (right - LEFT - 40) * math.log(value / xs[0]) / wide

    def y_of(value):
        return bottom - (bottom - TOP) * math.log(value / ys[0]) / tall

    for y in ys:
        picture.line(LEFT, y_of(y), right, y_of(y), "grid")
        picture.text(LEFT - 8, y_of(y) + 4, shown(y, unit), "quiet", "end")
    for x in xs:
        picture.line(x_of(x), bottom, x_of(x), bottom + 5, "quiet")
        picture.text(x_of(x), bottom + 20, f"{x:,}", "quiet", "middle")
    picture.text((LEFT + right) / 2, bottom + 40, "pods in the cluster", "quiet", "middle")
    labels = []
    for peer, values in series.items():
        colour = picture.colour(peer)
        path = " ".join(f"{x_of(x):.1f},{y_of(y):.1f}" for x, y in values)
        picture.parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2.5"/>')
        for x, y in values:
            picture.parts.append(f'<circle cx="{x_of(x):.1f}" cy="{y_of(y):.1f}" r="4" fill="{colour}"/>')
        x, y = values[-1]
        labels.append([y_of(y), x_of(x), f"{peer}: {shown(y, unit)}", colour])
    # At the end of each line, moved apart where they would touch.
    labels.sort()
    for before, label in zip(labels, labels[1:]):
        label[0] = max(label[0], before[0] + 17)
    for y, x, words, colour in labels:
        picture.text(max(x, right - 20) + 12, y + 4, words, colour, weight="600")


def bars(picture, groups, unit):
    """groups: [(title, [(peer, value)])], one below the other, each with a scale of its own."""
    y = TOP + 4
    for title, values in groups:
        picture.text(16, y + 12, title, "text", weight="600")
        y += 22
        most = max(value for _, value in values)
        for peer, value, colour in [(peer, value, picture.colour(peer.split(":")[0])) for peer, value in values]:
            length = max(1.5, 400 * value / most)
            picture.text(206, y + 13, peer, "text", "end")
            picture.parts.append(f'<rect x="214" y="{y + 2}" width="{length:.1f}" height="15" fill="{colour}"/>')
            picture.text(214 + length + 8, y + 14, shown(value, unit[title]), "quiet")
            y += 21
        y += 12


class Summary:
    def __init__(self, path):
        data = json.loads(pathlib.Path(path).read_text())
        self.header = data
        self.medians = {}
        for entry in data["entries"]:
            for figure, spread in entry["figures"].items():
                key = (entry["server"], entry["scenario"], entry["peer"], figure)
                self.medians.setdefault(key, {})[entry["objects"]] = spread["median"]

    def series(self, server, scenario, peer, figure):
        return sorted(self.medians.get((server, scenario, peer, figure), {}).items())


PEERS = ["client-go, protobuf", "client-go, JSON", "controller-runtime", "kube-rs"]


def line_picture(summary, server, name, title, subtitle, scenario, figure, unit):
    series = {"larder": summary.series(server, scenario, "larder", figure)}
    series |= {peer: summary.series(server, "first", peer, figure) for peer in PEERS}
    series = {peer: values for peer, values in series.items() if values}
    for theme in THEMES:
        picture = Picture(theme, title, subtitle)
        lines(picture, series, unit)
        picture.save(name)


def bar_picture(summary, server, objects):
    def value(scenario, peer, figure):
        return dict(summary.series(server, scenario, peer, figure)).get(objects)

    groups, units = [], {}
    for title, figure, unit in (("received in a restart", "received_bytes", "bytes"),
                                ("the server's CPU for a restart", "server_cpu_seconds", "s")):
        rows = [("larder: nothing changed", value("restart", "larder", figure)),
                ("larder: 1 % changed", value("restart_changed", "larder", figure)),
                ("larder: history expired", value("restart_expired", "larder", figure))]
        rows += [(peer, value("first", peer, figure)) for peer in PEERS]
        groups.append((title, [row for row in rows if row[1] is not None]))
        units[title] = unit
    height = TOP + 20 + sum(34 + 21 * len(rows) for _, rows in groups)
    for theme in THEMES:
        picture = Picture(theme, "What a restart costs the network and the server",
                          f"{objects:,} pods, {describe(summary, server)}", height)
        bars(picture, groups, units)
        picture.save("cost")


def describe(summary, server):
    versions, machine = summary.header["versions"], summary.header["machine"]
    name = f"kube-apiserver {versions['kube-apiserver']}" if server == "kube" else "the simulator"
    return f"{name}, client and server on {machine['cores']} cores, {summary.header['began']}"


def sizes(summary, server):
    return sorted({objects for key, values in summary.medians.items() if key[0] == server for objects in values})


def main():
    summary = Summary(sys.argv[1])
    # Lines want several sizes: from the real server where it was measured at several, else from the simulator.
    server = "kube" if len(sizes(summary, "kube")) > 1 else "simulator"
    about = describe(summary, server)
    line_picture(summary, server, "restart", "Restart until synced, nothing changed", about, "restart", "seconds", "s")
    line_picture(summary, server, "memory", "Memory when synced", about, "first", "steady_mib", "MiB")
    bar_picture(summary, "kube", sizes(summary, "kube")[-1])


if __name__ == "__main__":
    main()
