#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Makes one small clip for each codec in each container that people keep videos in, and for each way in which times, sizes and
# shapes can be awkward. Run in an empty directory; needs the ffmpeg program. A clip whose encoder is missing is left out.
# counts.txt: how many frames the ffmpeg program decodes of each; thumbs/: 8x8 grey pixels of each of them, by ffmpeg.

F="ffmpeg -hide_banner -loglevel error -y -threads 1"
B="-fflags +bitexact -flags:v +bitexact -map_metadata -1 -threads 1"
T="-f lavfi -i testsrc2=s=160x120:r=25:d=2"
Y="-pix_fmt yuv420p"
X264="-c:v libx264 -preset veryfast -g 12 -bf 3 $Y"
X265="-c:v libx265 -preset ultrafast $Y -x265-params log-level=error:pools=1:frame-threads=1:keyint=12:bframes=3"

make() { # OUT ARGUMENTS...: a clip of the test picture
    local out="$1"
    shift
    # shellcheck disable=SC2086
    $F $T "$@" $B "$out" </dev/null 2>/dev/null && [ -s "$out" ] || { rm -f "$out"; echo "left out: $out" >&2; }
}
copy() { # IN OUT ARGUMENTS...: the same stream in another container
    local in="$1" out="$2"
    shift 2
    [ -f "$in" ] || return 0
    $F -i "$in" -c copy "$@" -fflags +bitexact "$out" </dev/null 2>/dev/null && [ -s "$out" ] || { rm -f "$out"; echo "left out: $out" >&2; }
}

make h264.mp4 $X264
for e in mov mkv ts avi flv m2ts 3gp; do copy h264.mp4 h264.$e; done
copy h264.mp4 h264_raw.h264 -bsf:v h264_mp4toannexb -f h264
copy h264.mp4 h264_frag.mp4 -movflags frag_keyframe+empty_moov+default_base_moof
copy h264.mp4 h264_frag_frames.mp4 -movflags frag_every_frame+empty_moov
make h264_open_gop.mp4 $X264 -x264-params open-gop=1:keyint=10:min-keyint=10:bframes=3:b-pyramid=normal
copy h264_open_gop.mp4 h264_open_gop.ts
copy h264_open_gop.mp4 h264_open_gop.mkv
make h264_pyramid.mkv $X264 -x264-params b-pyramid=strict:bframes=5:ref=4:keyint=50
make h264_intra_refresh.mp4 $X264 -x264-params intra-refresh=1:keyint=20:bframes=0
make h264_intra.mp4 -c:v libx264 -g 1 $Y
make h264_10bit.mp4 -c:v libx264 -g 12 -bf 2 -pix_fmt yuv420p10le
make h264_422.mkv -c:v libx264 -g 12 -bf 2 -pix_fmt yuv422p
make h264_rgb.mkv -c:v libx264rgb -g 12 -pix_fmt rgb24
make h264_interlaced.ts -vf tinterlace=interleave_top,fieldorder=tff $X264 -flags +ilme+ildct -x264-params tff=1
make h264_sar.mkv -vf setsar=4/3 $X264
make h264_vfr.mkv -vf "select='not(mod(n,5))+not(mod(n,7))'" -vsync vfr $X264
for r in 90 180 270; do copy h264.mp4 h264_rot$r.mp4 -metadata:s:v:0 rotate=$r; done
[ -f h264.mp4 ] && $F -ss 0.6 -i h264.mp4 -c copy -fflags +bitexact h264_edit.mp4 </dev/null 2>/dev/null
copy h264.mp4 h264_wrap.ts -output_ts_offset 95442.7 -muxdelay 0
copy h264.mp4 h264_late.ts -output_ts_offset 1000
copy h264.mp4 part1.ts -output_ts_offset 50 -muxdelay 0
make other.mp4 -vf negate,hflip $X264
copy other.mp4 part2.ts -output_ts_offset 10 -muxdelay 0
[ -f part2.ts ] && cat part1.ts part2.ts >h264_restart.ts && cat part1.ts part1.ts >h264_repeat.ts
rm -f part1.ts part2.ts other.mp4
make small.h264 $X264 -f h264
make large.h264 -vf scale=240:180 $X264 -f h264
[ -f large.h264 ] && cat small.h264 large.h264 >h264_size_change.h264
rm -f small.h264 large.h264

make hevc.mp4 $X265
for e in mkv ts mov; do copy hevc.mp4 hevc.$e; done
copy hevc.mp4 hevc_raw.hevc -bsf:v hevc_mp4toannexb -f hevc
make hevc_open_gop.mp4 $X265:open-gop=1:min-keyint=12
copy hevc_open_gop.mp4 hevc_open_gop.ts
make hevc_10bit.mkv -c:v libx265 -preset ultrafast -pix_fmt yuv420p10le -x265-params log-level=error:pools=1:frame-threads=1:keyint=12:bframes=3

make vp8.webm -c:v libvpx -g 12 -auto-alt-ref 1 -lag-in-frames 16 -b:v 300k $Y
copy vp8.webm vp8.mkv
copy vp8.webm vp8.ivf
make vp9.webm -c:v libvpx-vp9 -g 12 -auto-alt-ref 1 -lag-in-frames 16 -cpu-used 5 -b:v 300k $Y
for e in mkv mp4 ivf; do copy vp9.webm vp9.$e; done
make vp9_444.webm -c:v libvpx-vp9 -g 12 -cpu-used 5 -b:v 300k -pix_fmt yuv444p
make vp9_alpha.webm -vf "format=yuva420p,geq=lum='lum(X,Y)':cb='cb(X,Y)':cr='cr(X,Y)':a='X'" -c:v libvpx-vp9 -g 12 -cpu-used 5 -b:v 300k -pix_fmt yuva420p
make vp8_alpha.webm -vf "format=yuva420p,geq=lum='lum(X,Y)':cb='cb(X,Y)':cr='cr(X,Y)':a='X'" -c:v libvpx -g 12 -auto-alt-ref 0 -b:v 300k -pix_fmt yuva420p
make av1.mp4 -c:v libsvtav1 -preset 12 -crf 40 -g 12 -svtav1-params lp=1 $Y
for e in mkv webm ivf obu; do copy av1.mp4 av1.$e; done
make av1_10bit.mkv -c:v libsvtav1 -preset 12 -crf 40 -g 12 -svtav1-params lp=1 -pix_fmt yuv420p10le

make mpeg1.mpg -c:v mpeg1video -g 12 -bf 2 -f mpeg
make mpeg1_raw.m1v -c:v mpeg1video -g 12 -bf 2 -f mpeg1video
make mpeg2.mpg -c:v mpeg2video -g 12 -bf 2 -f mpeg
make mpeg2.vob -c:v mpeg2video -g 12 -bf 2 -f vob
make mpeg2.ts -c:v mpeg2video -g 12 -bf 2
make mpeg2.mkv -c:v mpeg2video -g 12 -bf 2
make mpeg2_raw.m2v -c:v mpeg2video -g 12 -bf 2 -f mpeg2video
make mpeg2_interlaced.mpg -vf tinterlace=interleave_top,fieldorder=tff -c:v mpeg2video -g 12 -bf 2 -flags +ilme+ildct -f mpeg
make mpeg2_422.ts -c:v mpeg2video -g 12 -bf 2 -pix_fmt yuv422p
make mpeg4.mp4 -c:v mpeg4 -g 12 -bf 2 -q:v 4
for e in mkv avi mov; do copy mpeg4.mp4 mpeg4.$e; done
make mpeg4_raw.m4v -c:v mpeg4 -g 12 -bf 2 -q:v 4 -f m4v
make mpeg4_no_b.avi -c:v mpeg4 -g 12 -bf 0 -q:v 4
make msmpeg4.avi -c:v msmpeg4 -g 12 -q:v 4
make wmv2.wmv -c:v wmv2 -g 12 -q:v 4
make mjpeg.avi -c:v mjpeg -q:v 4 -pix_fmt yuvj420p
make mjpeg.mov -c:v mjpeg -q:v 4 -pix_fmt yuvj422p
copy mjpeg.avi mjpeg.mkv
make prores.mov -c:v prores_ks -profile:v 2 -pix_fmt yuv422p10le
make prores_alpha.mov -vf "format=yuva444p10le,geq=lum='lum(X,Y)':cb='cb(X,Y)':cr='cr(X,Y)':a='X*4'" -c:v prores_ks -profile:v 4444 -pix_fmt yuva444p10le
make qtrle.mov -c:v qtrle -pix_fmt rgb24
make ffv1.mkv -c:v ffv1 -level 3 -g 1 $Y
make huffyuv.avi -c:v huffyuv -pix_fmt yuv422p
make raw.avi -c:v rawvideo -pix_fmt bgr24
make theora.ogv -c:v libtheora -g 12 -q:v 5 $Y
make gif.gif
make gif_transparent.gif -vf "format=rgba,geq=r='r(X,Y)':g='g(X,Y)':b='b(X,Y)':a='255*gt(X,60)',split[a][b];[a]palettegen=reserve_transparent=1[p];[b][p]paletteuse"
make apng.apng -f apng -plays 0
make nut.nut -c:v mpeg4 -g 12 -bf 2 -q:v 4

mkdir thumbs
for clip in *.*; do
    $F -i "$clip" -map 0:v:0 -vsync passthrough -vf scale=8:8:flags=bilinear+accurate_rnd,format=gray -f rawvideo "thumbs/$clip" </dev/null 2>/dev/null
    echo "$clip $(($(stat -c %s "thumbs/$clip" 2>/dev/null || echo 0) / 64))"
done >.counts
mv .counts counts.txt
