# SPDX-License-Identifier: Apache-2.0
"""./dev bench redistribute: decoded samples change their rank on one host (tier 2), beside copying them one by one.

Eight ranks (real processes) decode 64 videos of 64 frames of 448 x 448 as float32, 154 MB each, in one round; features say
that those of even ranks are heavy, so about half of them change their rank. Clock: from the moment when the last rank has
its samples (decoding is over) until the last rank has all samples of its new share: features, assignment and exchange. The
monotonic clock is one for all processes. Checked: each sample once, contents unchanged, no byte moved.

Every second round the ranks wait for one another before they touch what they got, as synchronised ranks do whose work is on
a device: that is the exchange alone, to which the pass mark applies. Once all have their samples, those that moved are copied
one by one into memory of the rank, which is the least that any copying exchange does. In the other rounds each rank reads its
samples as soon as it has them (a sum over 1.2 GB), on the cores on which the others still exchange: with fewer cores than
ranks that is mostly a figure of the scheduler of the system.

The whole round lies in shared memory at once (9.9 GB); --small takes 16 frames of 224 x 224 (9.6 MB each, 0.6 GB).
"""

import argparse
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import time

RANKS, SAMPLES = 8, 64
PASS_MARK_MS = 20.0


def rank_main(folder, frames, size, epochs, workers):
    import torch
    from stoker import _rounds
    from stoker.media import VideoDataset
    from stoker.torch import DistributedDataLoader

    torch.set_num_threads(1)
    rank = int(os.environ["RANK"])
    clock = {}

    def timed(name, mark, has_samples):
        method = getattr(_rounds._Rounds, name)  # a generator

        def run(self, *arguments):
            result = yield from method(self, *arguments)
            if has_samples(result):
                clock[mark] = time.monotonic()
            return result

        setattr(_rounds._Rounds, name, run)

    timed("_collect", "start", lambda collected: collected[0])
    timed("_exchange", "end", bool)
    marks = {}

    def feature(sample):
        video, index = sample
        marks[int(index)] = float(video.view(-1)[-1])
        return {"cost": 10 if index % RANKS % 2 == 0 else 1, "mark": marks[int(index)]}

    paths = [str(path) for path in sorted(pathlib.Path(folder).glob("*.mp4"))]
    data = VideoDataset([paths[i % len(paths)] for i in range(SAMPLES)], frames=frames, size=size, dtype="float32",
                        mean=[0.5] * 3, std=[0.5] * 3, return_index=True)
    loader = DistributedDataLoader(
        data, batch_size=SAMPLES // RANKS, num_workers=workers, collate_fn=list, max_bytes=1 << 37,
        load_balance_config={"feature_fn": feature, "buffer_size": SAMPLES})
    for number in range(2 * epochs):
        before = loader.stats()["samples_given"]
        for batch in loader:
            if number % 2:
                for video, _ in batch:
                    video.sum()
            tell("held")
            ids = [int(index) for _, index in batch]
            moved = [video for video, index in batch if index % RANKS != rank]
            copies = 0.0
            for video in [] if number % 2 else moved:
                began = time.perf_counter()
                kept = video.clone()
                copies += time.perf_counter() - began
                del kept
            said = {"ids": ids, "copy_s": copies, "given": loader.stats()["samples_given"] - before,
                    "bytes": moved[0].numel() * 4 if moved else 0, "moved": loader.stats()["bytes_moved"], **clock,
                    "same": all(marks.get(int(i), float(v.view(-1)[-1])) == float(v.view(-1)[-1]) for v, i in batch)}
            del batch, moved, video
        tell(said)


def tell(what):
    """A line for the process that measures; goes on when all ranks have said theirs."""
    print(json.dumps(what), flush=True)
    sys.stdin.readline()


def hear(ranks):
    """What each rank says."""
    told = [json.loads(process.stdout.readline()) for process in ranks]
    for process in ranks:
        process.stdin.write("\n")
        process.stdin.flush()
    return told


def make_clips(folder, size):
    for number in range(4):
        subprocess.run(
            ["ffmpeg", "-v", "error", "-f", "lavfi", "-i", f"testsrc2=s={size}x{size}:r=30:d=3", "-vf", f"hue=h={40 * number}",
             "-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", f"{folder}/{number}.mp4"], check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="samples of 9.6 MB")
    parser.add_argument("--json", action="store_true", help="one object on stdout instead of the table")
    parser.add_argument("--rounds", type=int, default=5, help="of each kind")
    args = parser.parse_args()
    frames, size = (16, 224) if args.small else (64, 448)
    needed = SAMPLES * frames * 3 * size * size * 4
    available = next(int(line.split()[1]) << 10 for line in open("/proc/meminfo") if line.startswith("MemAvailable"))
    if available < needed + (RANKS * 300 << 20):
        sys.exit(f"redistribute: the round takes {needed / 1e9:.1f} GB and the ranks 2.5 GB, {available / 1e9:.1f} GB are"
                 " available: use --small")
    with tempfile.TemporaryDirectory() as folder:
        make_clips(folder, size)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        job = {"WORLD_SIZE": str(RANKS), "LOCAL_WORLD_SIZE": str(RANKS), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        ranks = [subprocess.Popen([sys.executable, __file__, "rank", folder, str(frames), str(size), str(args.rounds), "1"],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                  env={**os.environ, **job, "RANK": str(rank), "LOCAL_RANK": str(rank)})
                 for rank in range(RANKS)]
        rows = []
        try:
            for number in range(2 * args.rounds):
                hear(ranks)
                told = hear(ranks)
                if sorted(i for rank in told for i in rank["ids"]) != list(range(SAMPLES)) or not all(r["same"] for r in told):
                    sys.exit("redistribute: samples were lost, repeated or changed")
                rows.append(dict(reading=number % 2 == 1, moved=sum(r["given"] for r in told),
                                 ms=round(1e3 * (max(r["end"] for r in told) - max(r["start"] for r in told)), 3),
                                 bytes_moved=sum(r["moved"] for r in told),
                                 copy_ms=None if number % 2 else round(1e3 * sum(r["copy_s"] for r in told), 1)))
            for process in ranks:
                process.wait()
        finally:
            for process in ranks:
                process.kill()
    alone, reading = ([row for row in rows if row["reading"] == wanted] for wanted in (False, True))
    median = statistics.median(row["ms"] for row in alone)
    good = median < PASS_MARK_MS and all(row["bytes_moved"] == 0 for row in rows)
    result = dict(schema="stoker.bench.redistribute/2", ranks=RANKS, samples=SAMPLES, sample_bytes=needed // SAMPLES,
                  median_ms=round(median, 2), pass_mark_ms=PASS_MARK_MS,
                  reading_median_ms=round(statistics.median(row["ms"] for row in reading), 2),
                  bytes_moved=rows[-1]["bytes_moved"],
                  copy_ms=round(statistics.median(row["copy_ms"] for row in alone), 1), rounds=rows)
    if args.json:
        print(json.dumps(result))
    else:
        print(f"{SAMPLES} samples of {needed / SAMPLES / 1e6:.1f} MB, {RANKS} ranks, {len(alone)} rounds of each kind")
        for row in alone:
            print(f"  exchange {row['ms']:8.2f} ms: {row['moved']} samples changed their rank, {row['bytes_moved']} bytes moved;"
                  f" copying them one by one {row['copy_ms']:8.1f} ms")
        for row in reading:
            print(f"  exchange {row['ms']:8.2f} ms while the ranks that have theirs read them")
        print(f"median {median:.2f} ms, pass mark {PASS_MARK_MS:.0f} ms: {'ok' if good else 'MISSED'}; while others read"
              f" {result['reading_median_ms']:.2f} ms (no mark)")
    return 0 if good else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["rank"]:
        rank_main(sys.argv[2], *(int(word) for word in sys.argv[3:]))
    else:
        sys.exit(main())
