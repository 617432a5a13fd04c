"""Prints gcovr's summary as a table: lines per folder, then the files that are reached least.

    report.py SUMMARY.json FOLDER=PERCENT...

Ends with 1 when a folder is below its percentage.
"""
import collections
import json
import sys

LEAST = 15  # files that are shown


def main():
    files = json.load(open(sys.argv[1]))["files"]
    floors = dict(argument.split("=") for argument in sys.argv[2:])
    covered, total = collections.Counter(), collections.Counter()
    for file in files:
        folder = file["filename"].split("/")[0]
        covered[folder] += file["line_covered"]
        total[folder] += file["line_total"]

    short = []
    print(f"{'folder':<12}{'lines':>8}{'reached':>9}{'percent':>9}{'at least':>10}")
    for folder in sorted(total):
        percent = 100 * covered[folder] / total[folder]
        floor = floors.get(folder, "")
        print(f"{folder:<12}{total[folder]:>8}{covered[folder]:>9}{percent:>9.1f}{floor:>10}")
        if floor and percent < float(floor):
            short.append(folder)
    missing = [folder for folder in floors if not total[folder]]

    print("\nreached least:")
    judged = [f for f in files if f["filename"].split("/")[0] in floors and f["line_total"]]
    for file in sorted(judged, key=lambda f: f["line_percent"])[:LEAST]:
        lines = f"{file['line_covered']} of {file['line_total']}"
        print(f"  {file['filename']:<36}{file['line_percent']:>7.1f}  {lines}")
    if short or missing:
        print("\nbelow what is asked for: " + ", ".join(short + missing))
    return 1 if short or missing else 0


sys.exit(main())
