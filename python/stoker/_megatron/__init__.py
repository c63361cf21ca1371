# SPDX-License-Identifier: Apache-2.0
"""The parts of stoker.megatron, which holds the public names. No part imports PyTorch before an item is made."""
