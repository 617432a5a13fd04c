#!/usr/bin/env python3
"""Draws the picture in docs/reliability.md from the samples that ./dev soak --csv FILE wrote.

    docs/pictures/soak.py soak.csv

Writes docs/pictures/soak-light.svg and -dark.svg.
"""

import csv
import math
import sys

import peers

TOP, PANEL, GAP, LEFT, RIGHT = 70, 120, 34, 78, 24
# Title, column, what a unit is worth, how it is written.
PANELS = [
    ("resident memory, MB", "rss_bytes", 1 << 20),
    ("store on disk, MB", "disk_bytes", 1 << 20),
    ("changes that wait on disk for the handler that hangs, thousands", "rows", 1000),
]
POINTS = 600  # more of them than pixels say nothing


def nice_top(value):
    """The next of 1, 2, 5 times a power of ten at or above it."""
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= value)


class Samples:
    def __init__(self, path):
        with open(path, newline="") as file:
            self.rows = [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]
        self.end = self.rows[-1]["seconds"]
        self.restarts = [row["seconds"] for before, row in zip(self.rows, self.rows[1:]) if row["life"] != before["life"]]

    def lives(self, column):
        """One line for each process."""
        step = max(1, len(self.rows) // POINTS)
        lives = {}
        for row in self.rows[::step]:
            lives.setdefault(row["life"], []).append((row["seconds"], row[column]))
        return lives.values()


def panel(picture, samples, top, title, column, unit):
    right, bottom = peers.WIDTH - RIGHT, top + PANEL
    most = nice_top(max(row[column] for row in samples.rows) / unit)

    def x_of(seconds):
        return LEFT + (right - LEFT) * seconds / samples.end

    def y_of(value):
        return bottom - PANEL * value / most

    picture.text(LEFT, top - 8, title, "text", weight="600")
    for part in (0, 0.5, 1):
        picture.line(LEFT, y_of(most * part), right, y_of(most * part), "grid")
        picture.text(LEFT - 8, y_of(most * part) + 4, f"{most * part:g}", "quiet", "end")
    for seconds in samples.restarts:
        picture.line(x_of(seconds), top, x_of(seconds), bottom, "grid")
    for life in samples.lives(column):
        path = " ".join(f"{x_of(x):.1f},{y_of(y / unit):.1f}" for x, y in life)
        picture.parts.append(f'<polyline points="{path}" fill="none" stroke="{picture.colour("larder")}" stroke-width="1.6"/>')
    return x_of, bottom


def main():
    samples = Samples(sys.argv[1])
    rate = samples.rows[-1]["changes"] / samples.end
    objects = samples.rows[-1]["objects"]
    height = TOP + len(PANELS) * (PANEL + GAP) + 24
    for theme in peers.THEMES:
        picture = peers.Picture(
            theme, f"{samples.end / 60:.0f} minutes with a handler that hangs",
            f"{rate:,.0f} changes a second to {objects:,.0f} pods; a restart at each line, every second one by kill -9",
            height)
        for number, (title, column, unit) in enumerate(PANELS):
            x_of, bottom = panel(picture, samples, TOP + 8 + number * (PANEL + GAP), title, column, unit)
        for minutes in range(0, int(samples.end // 60) + 1, 10):
            picture.text(x_of(minutes * 60), bottom + 20, f"{minutes} min", "quiet", "middle")
        (peers.HERE / f"soak-{theme}.svg").write_text("\n".join(picture.parts) + "\n</svg>\n")


if __name__ == "__main__":
    main()
