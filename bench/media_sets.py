# SPDX-License-Identifier: Apache-2.0
"""Make the clips that benchmarks, the demo and the tests decode: seeded, cached, the same on every machine.

    media_sets.py profile   60 S + 60 M + 50 L + 14 X clips of five codecs (about 4 minutes on two cores, 274 MB)
    media_sets.py openvid   48 clips as large corpora of captioned video have them: H.264, 512p to 1080p, 2-16 s, with captions
                            (docs/reference/media-sets.md; about 2 minutes, 67 MB)
    media_sets.py demo      two real clips and 24 generated ones (about a minute)

Every draw comes from one seeded generator, in a fixed order, before anything is encoded; decoders, filters and encoders run
with one thread each (the footage is damaged in places, and threads conceal that differently), encoders with bit-exact
flags, so that a second run gives the same bytes. A clip appears under its name by rename only, so an
interrupted run is simply continued. `manifest.json` in the folder of a set names the clips and how they were made; it is
written last: a set with a manifest is complete. The real footage is that of Debian's python3-imageio package (BSD), fetched
by apt and unpacked into the cache, not installed.
"""

import argparse
import concurrent.futures
import contextlib
import fcntl
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
CACHE = pathlib.Path(os.environ.get("STOKER_CACHE", ROOT / ".cache")) / "media"
SEED = 20240607
VERSION = 2  # raise it when a recipe changes: cached sets of another version are made again
ENCODERS_AT_ONCE = 2
COMMON = ["-an", "-sn", "-map_metadata", "-1", "-threads", "1", "-fflags", "+bitexact"]

# name: frames, output side, number of clips, source sizes, seconds (from, to), codec weights
CODECS = {"h264": 66, "hevc": 12, "vp9": 9, "av1": 7, "mpeg4": 6}
CODECS_TAIL = {"h264": 70, "hevc": 14, "vp9": 8, "av1": 8}
PROFILES = {
    "S": dict(frames=16, side=224, count=60, seconds=(2, 10), codecs=CODECS,
              sizes=[(298, 224), (320, 240), (340, 256), (398, 224), (224, 398)]),
    "M": dict(frames=32, side=336, count=60, seconds=(2, 10), codecs=CODECS,
              sizes=[(448, 336), (598, 336), (480, 360), (640, 360), (336, 598)]),
    "L": dict(frames=64, side=448, count=50, seconds=(3, 10), codecs=CODECS,
              sizes=[(598, 448), (796, 448), (640, 480), (854, 480), (448, 796)]),
    "X": dict(frames=64, side=448, count=14, seconds=(20, 60), codecs=CODECS_TAIL,
              sizes=[(1920, 1080), (1280, 720), (1080, 1920)]),
}
TAIL_SEGMENT_S = 4.0  # an X clip is one short encode repeated by stream copy; its decode cost is that of a long clip
KEY_INTERVALS = [12, 30, 60, 120, 250]
B_FRAMES = [0, 2, 3]
RATES = ["15", "24000/1001", "25", "30000/1001", "30"]
NOISE = [0, 0, 4, 8]  # moves the bit rate, which moves the cost of decoding
SOURCES = ["cockatoo", "cockatoo", "realshort", "testsrc2", "mandelbrot", "life", "gradients"]
COCKATOO_S = 14.0

# The set of captioned clips: weights of what is drawn. docs/reference/media-sets.md says where they come from.
OPENVID = dict(
    count=48, targets=("S", "M", "L"), words=(60, 180), seconds=(2, 16),
    sizes={(912, 512): 30, (960, 540): 10, (1280, 720): 35, (1920, 1080): 15, (576, 1024): 5, (720, 1280): 5},
    rates={"24000/1001": 20, "24": 15, "25": 20, "30000/1001": 25, "30": 20},
    key_intervals={250: 70, 120: 10, 60: 10, 48: 10}, b_frames={3: 80, 2: 10, 0: 10}, noise={0: 70, 4: 30},
    presets={"veryfast": 60, "faster": 40}, qualities={0: 15, 1: 45, 2: 30, 3: 10},
    sources={"cockatoo": 70, "realshort": 5, "mandelbrot": 10, "gradients": 10, "testsrc2": 5})
CAPTION_TEXTS = ["GPL-2", "GPL-3", "LGPL-2.1", "Apache-2.0", "Artistic", "GFDL-1.3", "MPL-2.0"]  # of Debian's base-files


def log(text):
    print(text, file=sys.stderr, flush=True)


# --------------------------------------------------------------------------------------------------------- real footage

def real_clips():
    """Paths of the two real clips, fetched once."""
    folder = CACHE / "real"
    clips = {name: folder / f"{name}.mp4" for name in ("cockatoo", "realshort")}
    if all(path.exists() for path in clips.values()):
        return clips
    folder.mkdir(parents=True, exist_ok=True)
    images = pathlib.Path("usr/lib/python3/dist-packages/imageio/resources/images")
    installed = pathlib.Path("/") / images
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        if all((installed / path.name).exists() for path in clips.values()):
            origin = installed
        else:
            subprocess.run(["apt-get", "-q", "download", "python3-imageio"], cwd=scratch, check=True,
                           stdout=subprocess.DEVNULL)
            package = next(pathlib.Path(scratch).glob("python3-imageio_*.deb"))
            subprocess.run(["dpkg-deb", "-x", str(package), scratch], check=True)
            origin = pathlib.Path(scratch) / images
        for path in clips.values():
            part = pathlib.Path(scratch) / (path.name + ".part")
            shutil.copyfile(origin / path.name, part)
            part.rename(path)
    return clips


# ---------------------------------------------------------------------------------------------------------------- draws

def pick(rng, values):
    # random() is the one draw whose sequence Python promises to keep for a seed.
    return values[int(rng.random() * len(values))]


def pick_weighted(rng, weights):
    point = rng.random() * sum(weights.values())
    for name, weight in weights.items():
        point -= weight
        if point < 0:
            return name
    return name


def draw_clip(rng, profile, index):
    """All that decides one clip. Every clip draws the same number of values, so one recipe's change moves no other clip."""
    form = PROFILES[profile]
    clip = dict(
        profile=profile, frames=form["frames"], side=form["side"], codec=pick_weighted(rng, form["codecs"]),
        size=list(pick(rng, form["sizes"])),
        seconds=round(form["seconds"][0] + rng.random() * (form["seconds"][1] - form["seconds"][0]), 2),
        key_interval=pick(rng, KEY_INTERVALS), b_frames=pick(rng, B_FRAMES), rate=pick(rng, RATES),
        source=pick(rng, SOURCES), noise=pick(rng, NOISE), seed=int(rng.random() * 1000), start=round(rng.random(), 4),
        quality=int(rng.random() * 4), preset=pick(rng, ["veryfast", "faster", "medium"]), faststart=rng.random() < 0.5,
        other_container=rng.random() < 0.3)
    container = {"h264": ("mp4", "mkv"), "av1": ("mp4", "mkv"), "hevc": ("mp4", "mp4"), "vp9": ("webm", "webm"),
                 "mpeg4": ("avi", "mp4")}[clip["codec"]][clip["other_container"]]
    clip["path"] = f"{profile}/{profile}_{index:03d}_{clip['codec']}.{container}"
    return clip


def draw_profile(names=tuple(PROFILES), count=None):
    clips = []
    for name in names:
        rng = random.Random(f"{SEED}/{name}")
        clips += [draw_clip(rng, name, index) for index in range(PROFILES[name]["count"] if count is None else count[name])]
    return clips


def caption_words():
    """Words that every Debian has, in order."""
    folder = pathlib.Path("/usr/share/common-licenses")
    return [word for name in CAPTION_TEXTS for word in (folder / name).read_text(errors="replace").split()
            if any(letter.isalpha() for letter in word)]


def draw_caption(rng, words):
    """A passage of 60 to 180 words, 120 on average (the sum of two draws); ends with a full stop."""
    least, most = OPENVID["words"]
    count = round(least + (rng.random() + rng.random()) * (most - least) / 2)
    start = int(rng.random() * (len(words) - count))
    text = " ".join(words[start:start + count])
    return text[0].upper() + text[1:].rstrip(".,;:") + "."


def draw_openvid():
    """The captioned clips; the targets (frames and side of a sample) alternate."""
    rng, words, clips = random.Random(f"{SEED}/openvid"), caption_words(), []
    least, most = OPENVID["seconds"]
    for index in range(OPENVID["count"]):
        target = OPENVID["targets"][index % len(OPENVID["targets"])]
        clip = dict(profile="openvid", target=target, frames=PROFILES[target]["frames"], side=PROFILES[target]["side"],
                    codec="h264", size=list(pick_weighted(rng, OPENVID["sizes"])),
                    seconds=round(least + rng.random() ** 2 * (most - least), 2),  # short ones are more
                    key_interval=pick_weighted(rng, OPENVID["key_intervals"]),
                    b_frames=pick_weighted(rng, OPENVID["b_frames"]), rate=pick_weighted(rng, OPENVID["rates"]),
                    source=pick_weighted(rng, OPENVID["sources"]), noise=pick_weighted(rng, OPENVID["noise"]),
                    seed=int(rng.random() * 1000), start=round(rng.random(), 4),
                    quality=pick_weighted(rng, OPENVID["qualities"]), preset=pick_weighted(rng, OPENVID["presets"]),
                    faststart=rng.random() < 0.5, caption=draw_caption(rng, words), path=f"clips/{index:03d}.mp4")
        if clip["source"] == "cockatoo" and clip["seconds"] > COCKATOO_S:
            clip["source"] = "realshort"  # which may be repeated
        clips.append(clip)
    return clips


# ------------------------------------------------------------------------------------------------------------- encoding

def source_arguments(clip, seconds, real):
    width, height = clip["size"]
    # Generated pictures are made small and scaled up: they cost more than the encoders otherwise, and cells of one pixel
    # would make bit rates that no camera makes. Sizes stay even.
    small = f"{width // 4 * 2}x{height // 4 * 2}"
    coarse = f"{width // 16 * 2}x{height // 16 * 2}"
    rate = clip["rate"]
    source = clip["source"]
    if source == "cockatoo":
        start = clip["start"] * max(0.0, COCKATOO_S - seconds)
        return ["-threads", "1", "-ss", f"{start:.2f}", "-i", str(real["cockatoo"])]
    if source == "realshort":
        return ["-threads", "1", "-stream_loop", "-1", "-i", str(real["realshort"])]
    # Colours that are not named would be drawn anew in each run, whatever the seed is.
    colours = ":".join(f"c{i}=0x{(clip['seed'] * 7919 + i * 104729 + 1) * 2654435761 % 0xFFFFFF:06X}" for i in range(5))
    graph = {
        "testsrc2": f"testsrc2=s={width}x{height}:r={rate}",
        "mandelbrot": f"mandelbrot=s={small}:r={rate}:start_scale={2.5 - clip['seed'] / 500:.3f}",
        "life": f"life=s={coarse}:r={rate}:seed={clip['seed']}:ratio=0.3:mold=10:life_color=#C83232:death_color=#3264C8",
        "gradients": f"gradients=s={small}:r={rate}:seed={clip['seed']}:speed=0.02:nb_colors=5:{colours}",
    }[source]
    return ["-f", "lavfi", "-i", graph]


def codec_arguments(clip):
    interval, b_frames, quality = str(clip["key_interval"]), clip["b_frames"], clip["quality"]
    codec = clip["codec"]
    if codec == "h264":
        arguments = ["-c:v", "libx264", "-preset", clip["preset"], "-crf", str([20, 23, 26, 30][quality]), "-g", interval,
                     "-bf", str(b_frames)]
    elif codec == "hevc":
        arguments = ["-c:v", "libx265", "-preset", "superfast", "-crf", str([24, 28, 32, 28][quality]), "-x265-params",
                     f"log-level=error:keyint={interval}:bframes={b_frames}:pools=1:frame-threads=1", "-tag:v", "hvc1"]
    elif codec == "vp9":
        arguments = ["-c:v", "libvpx-vp9", "-deadline", "realtime", "-cpu-used", "8", "-crf", str([32, 38][quality % 2]),
                     "-b:v", "0", "-g", interval]
    elif codec == "av1":
        arguments = ["-c:v", "libsvtav1", "-preset", "12", "-crf", str([35, 45][quality % 2]), "-g", interval,
                     "-svtav1-params", "lp=1"]
    else:
        arguments = ["-c:v", "mpeg4", "-q:v", str([3, 5][quality % 2]), "-g", interval, "-bf", str(min(b_frames, 2))]
    if clip["faststart"] and clip["path"].endswith(".mp4"):
        arguments += ["-movflags", "+faststart"]
    return arguments


def run_ffmpeg(arguments, lock):
    command = ["ffmpeg", "-nostdin", "-hide_banner", "-loglevel", "error", "-y", "-filter_threads", "1", *arguments]
    environment = dict(os.environ, SVT_LOG="0")
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment,
                          pass_fds=[lock])
    if done.returncode != 0:
        raise RuntimeError(f"ffmpeg failed ({done.returncode}): {' '.join(command)}\n{done.stdout[-2000:]}")


def encode(clip, folder, real, lock):
    """Make one clip unless it is there."""
    path = folder / clip["path"]
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.stem}.part{path.suffix}")
    width, height = clip["size"]
    tail = clip["profile"] == "X"
    seconds = TAIL_SEGMENT_S if tail else clip["seconds"]
    picture = (f"fps={clip['rate']},scale={width}:{height}:force_original_aspect_ratio=increase:flags=bicubic,"
               f"crop={width}:{height},setsar=1,noise=alls={clip['noise']}:allf=t,format=yuv420p")
    first = path.with_name(f".{path.stem}.segment{path.suffix}") if tail else part
    run_ffmpeg([*source_arguments(clip, seconds, real), "-t", str(seconds), "-vf", picture, *codec_arguments(clip), *COMMON,
                str(first)], lock)
    if tail:
        repeats = max(0, round(clip["seconds"] / TAIL_SEGMENT_S) - 1)
        run_ffmpeg(["-stream_loop", str(repeats), "-i", str(first), "-c", "copy", "-map_metadata", "-1", "-fflags", "+bitexact",
                    str(part)], lock)
        first.unlink()
    part.rename(path)


# ----------------------------------------------------------------------------------------------------------------- sets

def complete(folder):
    try:
        manifest = json.loads((folder / "manifest.json").read_text())
    except (OSError, ValueError):
        return None
    if manifest.get("version") != VERSION or not all((folder / clip["path"]).exists() for clip in manifest["clips"]):
        return None
    return manifest["clips"]


@contextlib.contextmanager
def one_maker(name):
    """Holds the set's lock. Encoders inherit it, so that those of a maker that was killed end before the next one starts."""
    CACHE.mkdir(parents=True, exist_ok=True)
    lock = os.open(CACHE / f"{name}.lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock
    finally:
        os.close(lock)


def make_set(name, clips, extra=()):
    """Encode what is missing of a set and write its manifest; returns the clips with absolute paths."""
    folder = CACHE / name
    with one_maker(name) as lock:
        done = complete(folder) or encode_set(name, folder, clips, extra, lock)
    return [dict(clip, path=str(folder / clip["path"])) for clip in done]


def encode_set(name, folder, clips, extra, lock):
    stamp = folder / "version"
    if folder.exists() and (not stamp.exists() or stamp.read_text() != str(VERSION)):
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    stamp.write_text(str(VERSION))
    with one_maker("real"):
        real = real_clips()
    log(f"media {name}: {len(clips)} clips, {ENCODERS_AT_ONCE} encoders at a time")
    with concurrent.futures.ThreadPoolExecutor(ENCODERS_AT_ONCE) as pool:
        jobs = [pool.submit(encode, clip, folder, real, lock) for clip in clips]
        for count, job in enumerate(concurrent.futures.as_completed(jobs), 1):
            job.result()
            if count % 20 == 0 or count == len(jobs):
                log(f"media {name}: {count}/{len(jobs)}")
    for clip in extra:
        target = folder / clip["path"]
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(real[clip["source"]], target)
    done = [*extra, *clips]
    for clip in done:
        clip["bytes"] = (folder / clip["path"]).stat().st_size
    part = folder / "manifest.json.part"
    part.write_text(json.dumps(dict(version=VERSION, seed=SEED, clips=done), indent=1) + "\n")
    part.rename(folder / "manifest.json")
    return done


def profile_set(names=tuple(PROFILES)):
    """Clips of the named profiles (all of S, M, L, X by default); each profile is a set of its own."""
    return [clip for name in names for clip in make_set(f"profile-{name}", draw_profile([name]))]


def openvid_set():
    """The captioned clips, and beside them `clips.jsonl`: path (from the folder of the set), caption and target of each."""
    clips = make_set("openvid", draw_openvid())
    lines = [json.dumps({"path": os.path.relpath(clip["path"], CACHE / "openvid"), "caption": clip["caption"],
                         "target": clip["target"]}) for clip in clips]
    part = CACHE / "openvid" / f"clips.jsonl.{os.getpid()}"
    part.write_text("\n".join(lines) + "\n")
    part.rename(CACHE / "openvid" / "clips.jsonl")
    return clips


def demo_set():
    """Two real clips, then 24 generated ones whose cost differs by more than a factor of ten."""
    clips = draw_profile(("S", "M", "L"), dict(S=12, M=8, L=4))
    for clip in clips:
        clip["seconds"] = round(min(clip["seconds"], 6.0), 2)
    extra = [dict(profile="real", source=name, codec="h264", path=f"real/{name}.mp4", frames=16, side=224)
             for name in ("cockatoo", "realshort")]
    return make_set("demo", clips, extra)


def main():
    parser = argparse.ArgumentParser(prog="dev media", description="make a set of clips, or find it in the cache")
    parser.add_argument("name", choices=["profile", "openvid", "demo", *PROFILES])
    arguments = parser.parse_args()
    os.nice(10)
    names = tuple(PROFILES) if arguments.name == "profile" else (arguments.name,)
    makers = {"demo": demo_set, "openvid": openvid_set}
    clips = makers[arguments.name]() if arguments.name in makers else profile_set(names)
    total = sum(clip["bytes"] for clip in clips)
    print(f"{arguments.name}: {len(clips)} clips, {total / 1e6:.0f} MB in {CACHE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
