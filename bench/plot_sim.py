#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plots of a simulated study: stoker-sim compare --study published --json | bench/plot_sim.py -o FOLDER

Draws what the tables of the JSON hold: systems.png (throughput, misses and wait p95 of both worlds), sweep.png
(throughput against remote servers) and pressure.png (share of the ideal bound against load). Needs matplotlib, which
stoker itself does not: without it the program says so and ends with status 3.
"""

import argparse
import json
import pathlib
import sys


def of_system(rows, column, system, **where):
    return [row[column] for row in rows
            if row["system"] == system and all(row[name] == value for name, value in where.items())]


def systems(plot, tables, path):
    worlds = [world for world in ("reproduction", "fair") if world in tables]
    columns = ["samples_per_s", "miss", "wait_p95_s"]
    figure, axes = plot.subplots(len(worlds), len(columns), figsize=(12, 3.2 * len(worlds)), squeeze=False)
    for axis_row, world in zip(axes, worlds, strict=True):
        for axis, column in zip(axis_row, columns, strict=True):
            names = [row["system"] for row in tables[world]]
            axis.barh(names, [row[column] for row in tables[world]])
            axis.invert_yaxis()
            axis.set_title(f"{world}: {column} (simulated)", fontsize=9)
    figure.tight_layout()
    figure.savefig(path)


def sweep(plot, tables, path):
    worlds = [name for name in ("sweep_reproduction", "sweep_fair") if name in tables]
    figure, axes = plot.subplots(1, len(worlds), figsize=(6 * len(worlds), 4), squeeze=False)
    for axis, world in zip(axes[0], worlds, strict=True):
        rows = tables[world]
        for system in ("ours", "published"):
            counts = sorted({row["remote_servers"] for row in rows})
            means = []
            for count in counts:
                product, rates = 1.0, of_system(rows, "samples_per_s", system, remote_servers=count)
                for rate in rates:
                    product *= rate ** (1 / len(rates))
                means.append(product)
            axis.plot(counts, means, marker="o", label=system)
        axis.set_xlabel("remote DataServers")
        axis.set_ylabel("samples/s, geometric mean (simulated)")
        axis.set_title(world, fontsize=9)
        axis.set_ylim(bottom=0)
        axis.legend()
    figure.tight_layout()
    figure.savefig(path)


def pressure(plot, tables, path):
    rows = tables["pressure"]
    workloads = list(dict.fromkeys(row["workload"] for row in rows))
    figure, axes = plot.subplots(1, len(workloads), figsize=(4 * len(workloads), 3.6), squeeze=False, sharey=True)
    for axis, workload in zip(axes[0], workloads, strict=True):
        for system in dict.fromkeys(row["system"] for row in rows):
            axis.plot(of_system(rows, "load", system, workload=workload),
                      of_system(rows, "share_of_ideal", system, workload=workload), marker=".", label=system)
        axis.set_title(workload, fontsize=9)
        axis.set_xlabel("share of all cores asked for")
    axes[0][0].set_ylabel("share of the ideal bound (simulated)")
    axes[0][-1].legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", help="the JSON (default: stdin)")
    parser.add_argument("-o", "--out", default=".", help="folder for the pictures")
    options = parser.parse_args()
    try:
        import matplotlib
    except ImportError:
        print("plot_sim: matplotlib is not installed\nhint: pip install matplotlib", file=sys.stderr)
        return 3
    matplotlib.use("Agg")
    from matplotlib import pyplot
    report = json.loads(pathlib.Path(options.file).read_text() if options.file else sys.stdin.read())
    if report.get("schema") != "stoker.sim.compare/1":
        print(f"plot_sim: schema is {report.get('schema')!r}, expected 'stoker.sim.compare/1'", file=sys.stderr)
        return 3
    tables, out = report["tables"], pathlib.Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    drawn = []
    for name, draw, needs in (("systems", systems, ("reproduction", "fair")), ("sweep", sweep, ("sweep_reproduction",)),
                              ("pressure", pressure, ("pressure",))):
        if any(need in tables for need in needs):
            draw(pyplot, tables, out / f"{name}.png")
            drawn.append(f"{name}.png")
    print(" ".join(drawn))
    return 0


if __name__ == "__main__":
    sys.exit(main())
