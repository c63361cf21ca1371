# SPDX-License-Identifier: Apache-2.0
"""./dev bench redistribute: decoded samples change their rank on one host (tier 2), beside copying them one by one.

Eight ranks (real processes) decode 64 videos of 64 frames of 448 x 448 as float32, 154 MB each, in one round; features say
that those of even ranks are heavy, so about half of them change their rank. Clock: from the moment when the last rank has
its samples (decoding is over) until the last rank has all samples of its new share: features, assignment and exchange. The
monotonic clock is one for all processes. Checked: each sample once, contents unchanged, no byte moved. Beside it the samples
that moved are copied one by one into memory of the rank, which is the least that any copying exchange does.

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

    def timed(name, before):
        method = getattr(_rounds.RoundIterator, name)

        def run(self, samples, *arguments):
            if samples and before:
                clock["start"] = time.monotonic()
            result = method(self, samples, *arguments)
            if result and not before:
                clock["end"] = time.monotonic()
            return result

        setattr(_rounds.RoundIterator, name, run)

    timed("_tell", True)
    timed("_exchange", False)
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
    for _ in range(epochs):
        before = loader.stats()["samples_given"]
        for batch in loader:
            ids = [int(index) for _, index in batch]
            moved = [video for video, index in batch if index % RANKS != rank]
            copies = 0.0
            for video in moved:
                began = time.perf_counter()
                kept = video.clone()
                copies += time.perf_counter() - began
                del kept
            said = {"ids": ids, "copy_s": copies, "given": loader.stats()["samples_given"] - before,
                    "bytes": moved[0].numel() * 4 if moved else 0, "moved": loader.stats()["bytes_moved"], **clock,
                    "same": all(marks.get(int(i), float(v.view(-1)[-1])) == float(v.view(-1)[-1]) for v, i in batch)}
            del batch, moved, video
        print(json.dumps(said), flush=True)
        sys.stdin.readline()


def make_clips(folder, size):
    for number in range(4):
        subprocess.run(
            ["ffmpeg", "-v", "error", "-f", "lavfi", "-i", f"testsrc2=s={size}x{size}:r=30:d=3", "-vf", f"hue=h={40 * number}",
             "-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", f"{folder}/{number}.mp4"], check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="samples of 9.6 MB")
    parser.add_argument("--json", action="store_true", help="one object on stdout instead of the table")
    parser.add_argument("--rounds", type=int, default=5)
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
            for _ in range(args.rounds):
                told = [json.loads(process.stdout.readline()) for process in ranks]
                if sorted(i for rank in told for i in rank["ids"]) != list(range(SAMPLES)) or not all(r["same"] for r in told):
                    sys.exit("redistribute: samples were lost, repeated or changed")
                rows.append(dict(ms=1e3 * (max(r["end"] for r in told) - max(r["start"] for r in told)),
                                 moved=sum(r["given"] for r in told), bytes_moved=sum(r["moved"] for r in told),
                                 copy_ms=1e3 * sum(r["copy_s"] for r in told)))
                for process in ranks:
                    process.stdin.write("\n")
                    process.stdin.flush()
            for process in ranks:
                process.wait()
        finally:
            for process in ranks:
                process.kill()
    median = statistics.median(row["ms"] for row in rows)
    good = median < PASS_MARK_MS and all(row["bytes_moved"] == 0 for row in rows)
    result = dict(schema="stoker.bench.redistribute/1", ranks=RANKS, samples=SAMPLES, sample_bytes=needed // SAMPLES,
                  median_ms=round(median, 2), pass_mark_ms=PASS_MARK_MS, bytes_moved=rows[-1]["bytes_moved"],
                  copy_ms=round(statistics.median(row["copy_ms"] for row in rows), 1), rounds=rows)
    if args.json:
        print(json.dumps(result))
    else:
        print(f"{SAMPLES} samples of {needed / SAMPLES / 1e6:.1f} MB, {RANKS} ranks, {len(rows)} rounds")
        for row in rows:
            print(f"  exchange {row['ms']:8.2f} ms: {row['moved']} samples changed their rank, {row['bytes_moved']} bytes moved;"
                  f" copying them one by one {row['copy_ms']:8.1f} ms")
        print(f"median {median:.2f} ms, pass mark {PASS_MARK_MS:.0f} ms: {'ok' if good else 'MISSED'}")
    return 0 if good else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["rank"]:
        rank_main(sys.argv[2], *(int(word) for word in sys.argv[3:]))
    else:
        sys.exit(main())
