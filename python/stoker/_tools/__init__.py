# SPDX-License-Identifier: Apache-2.0
"""The commands of the ``stoker`` program that are written in Python: `stoker preprocess` and `stoker index build`.

The program finds them; there is nothing here to import.
"""
