# SPDX-License-Identifier: Apache-2.0
"""./dev bench media-limit: what stoker spends on a sample besides the decoder, and what its plans save.

Three questions, in CPU time of one thread (build/bench/media_clocks: the decoder that ships, clocks around its calls into
libavcodec; the least of three samples of each file counts):

    scan    of the packets of all files, as a manifest is built, against a sample of each in the profile's form
    share   of the time of the samples of the profile set that is not libavcodec's: scan, plan, scaler, stores
    saving  of the plan by cost against decoding everything, with 4, 8 and 16 frames of each clip of the profile set that
            has B-frames (h264, hevc, mpeg4)
"""

import argparse
import json
import pathlib
import subprocess
import sys

import harness
import media_sets

PROGRAM = media_sets.ROOT / "build" / "bench" / "media_clocks"
SHARE_MAX = {"S": 0.12, "M": 0.12, "L": 0.20}
SCAN_MAX = 0.01
SPARSE_FRAMES = (4, 8, 16)
SAVING_MIN = 0.20
B_FRAME_CODECS = ("h264", "hevc", "mpeg4")


def clocks(program, frames, side, dtype, plan, repeats, clips):
    command = [str(program), str(frames), str(side), dtype, plan, str(repeats), *(clip["path"] for clip in clips)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise SystemExit(f"media-limit: {program} ended with {done.returncode}")
    return json.loads(done.stdout)


def shares(program, names, dtype, repeats):
    """Of the same runs: what is not libavcodec's, and what the scans cost."""
    rows, scans = [], []
    for name in names:
        clips = media_sets.profile_set((name,))
        harness.log(f"media-limit: share, {name} {dtype}, {len(clips)} clips")
        answer = clocks(program, clips[0]["frames"], clips[0]["side"], dtype, "cost", repeats, clips)
        share = 1 - answer["libavcodec_s"] / answer["cpu_s"]
        rows.append(dict(profile=name, dtype=dtype, clips=answer["files"], cpu_ms=1e3 * answer["cpu_s"] / answer["files"],
                         share=share, mark=SHARE_MAX[name], passed=share <= SHARE_MAX[name]))
        scans.append(dict(profile=name, clips=answer["files"], scan_s=answer["scan_s"], cpu_s=answer["cpu_s"],
                          shares=sorted(answer["scan_shares"])))
    whole = {key: sum(row[key] for row in scans) for key in ("clips", "scan_s", "cpu_s")}
    scans.append(dict(whole, profile=",".join(names), shares=sorted(one for row in scans for one in row["shares"])))
    return rows, [scan_row(row) for row in scans]


def scan_row(row):
    """The mark is one of the whole set; what single profiles and clips have stands beside it."""
    each, total = row["shares"], row["scan_s"] / row["cpu_s"]
    return dict(profile=row["profile"], clips=row["clips"], scan_ms=1e3 * row["scan_s"] / row["clips"], total=total,
                median=each[len(each) // 2], p95=each[int(0.95 * len(each))], worst=each[-1], mark=SCAN_MAX,
                passed=total < SCAN_MAX)


def savings(program, names, repeats):
    clips = [clip for clip in media_sets.profile_set(names) if clip["b_frames"] > 0 and clip["codec"] in B_FRAME_CODECS]
    rows = []
    for frames in SPARSE_FRAMES:
        harness.log(f"media-limit: saving, {frames} frames, {len(clips)} clips")
        cost, whole = (clocks(program, frames, 224, "uint8", plan, repeats, clips) for plan in ("cost", "in-order"))
        saving = 1 - cost["cpu_s"] / whole["cpu_s"]
        rows.append(dict(frames=frames, clips=cost["files"], cpu_ms=1e3 * cost["cpu_s"] / cost["files"],
                         cpu_ms_whole=1e3 * whole["cpu_s"] / whole["files"], packets=cost["packets"],
                         packets_whole=whole["packets"], saving=saving, mark=SAVING_MIN, passed=saving >= SAVING_MIN))
    return rows


def verdict(row, sign, value):
    return f"{sign} {value:.0%}: {'pass' if row['passed'] else 'FAIL'}"


def main():
    parser = argparse.ArgumentParser(prog="dev bench media-limit", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--profile", default="S,M,L", help="of S, M, L")
    parser.add_argument("--dtype", default="uint8", choices=["uint8", "float32"], help="of the samples whose share is measured")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="the same as JSON on stdout")
    parser.add_argument("--no-record", action="store_true", help="leave results.csv as it is")
    parser.add_argument("--program", type=pathlib.Path, default=PROGRAM, help="another build of media_clocks")
    arguments = parser.parse_args()
    names = tuple(arguments.profile.split(","))
    if unknown := set(names) - set(SHARE_MAX):
        parser.error(f"no profile {', '.join(sorted(unknown))}; there are: S, M, L")
    note = harness.load_note()
    share, scan = shares(arguments.program, names, arguments.dtype, arguments.repeats)
    saving = savings(arguments.program, names, arguments.repeats)
    if not arguments.no_record:
        for row in share:
            harness.record("media-limit", f"{row['profile']} {row['dtype']}",
                           [("outside libavcodec", row["share"], row["share"], row["share"], arguments.repeats, "share")], note)
        for row in scan:
            harness.record("media-limit", f"{row['profile']} packet scan against decode",
                           [("all clips", row["total"], row["total"], row["total"], arguments.repeats, "share"),
                            ("one clip", row["median"], row["median"], row["worst"], arguments.repeats, "share")], note)
        for row in saving:
            harness.record("media-limit", f"{row['frames']} frames of {','.join(names)} with B-frames",
                           [("saved", row["saving"], row["saving"], row["saving"], arguments.repeats, "share")], note)
    if arguments.json:
        print(json.dumps(dict(schema="stoker.bench.media-limit/1", machine=harness.machine(), note=note, share=share, scan=scan,
                              saving=saving)))
    else:
        print("\n".join(harness.table(
            ["profile", "clips", "CPU ms/sample", "outside libavcodec", "mark"],
            [[f"{row['profile']} {row['dtype']}", row["clips"], f"{row['cpu_ms']:.1f}", f"{row['share']:.1%}",
              verdict(row, "<=", row["mark"])] for row in share])), end="\n\n")
        print("\n".join(harness.table(
            ["packet scan against decode", "clips", "CPU ms/scan", "all", "median clip", "p95", "worst", "mark (all)"],
            [[row["profile"], row["clips"], f"{row['scan_ms']:.2f}", f"{row['total']:.2%}", f"{row['median']:.2%}",
              f"{row['p95']:.2%}", f"{row['worst']:.2%}",
              verdict(row, "<", row["mark"]) if row is scan[-1] else ""] for row in scan])), end="\n\n")
        print("\n".join(harness.table(
            ["frames of a clip", "clips", "CPU ms/sample", "decoding all", "packets", "decoding all", "saved", "mark"],
            [[row["frames"], row["clips"], f"{row['cpu_ms']:.1f}", f"{row['cpu_ms_whole']:.1f}", row["packets"],
              row["packets_whole"], f"{row['saving']:.0%}", verdict(row, ">=", row["mark"])] for row in saving])))
    return 0 if all(row["passed"] for row in [*share, scan[-1], *saving]) else 1


if __name__ == "__main__":
    sys.exit(main())
