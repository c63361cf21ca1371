# SPDX-License-Identifier: Apache-2.0
"""Parts of ``stoker.packing``; import that instead.

``words`` (buffers), ``schedulers`` and ``registry`` (who gets what), ``samples`` (cut and join), ``groups`` (process
groups and their collectives), ``exchange`` (samples change ranks), ``entry``, ``batch`` and ``hybrid`` (the interface),
``params``, and ``sequences`` (the packing iterator).
"""
