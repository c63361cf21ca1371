# SPDX-License-Identifier: Apache-2.0
"""``HybridCPDataLoaderWrapper``: long samples are shared by several ranks of the data- and context-parallel group."""

from __future__ import annotations

from . import groups
from .exchange import gather_lengths, reroute, settings_of
from .samples import cut
from .schedulers import BalancedCPScheduler

_NOT_MOVED = ("cu_seqlens", "batch_idx", "max_seqlen")


class HybridCPDataLoaderWrapper:
    """Wraps an iterator over batches of packed samples (lists of dicts with ``cu_seqlens``).

    Each ``next()`` returns ``({id: sample}, id_groups)``: the sub-samples that the schedule gives this rank, and the
    ids of every rank in every micro-batch. Where ``data_iterator`` is None, on tensor-parallel ranks but the first, it
    is ``(None, None)``.
    """

    def __init__(self, data_iterator, config, pg_collection=None) -> None:
        pg = groups.groups_of(pg_collection)
        self.data_iterator = data_iterator
        self.config = config
        self.dp_cp_group, self.dp_group, self.tp_group = pg.dp_cp, pg.dp, pg.tp
        self.total_hdp_gpus = groups.size(pg.dp_cp)
        self.cp_balancing_scheduler = BalancedCPScheduler(
            config.max_seqlen_per_dp_cp_rank, _Sized(self.total_hdp_gpus) if pg.dp_cp is None else pg.dp_cp
        )

    def __iter__(self):
        return self

    def __next__(self):
        if self.data_iterator is None:
            return None, None
        device = groups.device_of(self.dp_cp_group)
        samples, error = [], None
        try:
            for number, sample in enumerate(next(self.data_iterator)):
                samples += cut(sample, [key for key in sample if key not in _NOT_MOVED], number)
            lengths = [next(iter(sample.values())).shape[0] for sample in samples]
        except BaseException as failure:  # told to the other ranks first
            error, lengths = failure, []
        settings = settings_of(self.cp_balancing_scheduler, None)
        gathered = gather_lengths(samples, lengths, error, settings, self.dp_group, self.dp_cp_group, device)
        _, id_groups = self.cp_balancing_scheduler.get_groups_and_subsamples(
            list(enumerate(gathered.lengths)), self.config
        )
        found = reroute(samples, gathered, id_groups, self.dp_group, self.dp_cp_group, device)
        return found, id_groups


class _Sized:
    """Stands for the group of a process that is alone."""

    def __init__(self, size: int) -> None:
        self._size = size

    def size(self) -> int:
        return self._size
