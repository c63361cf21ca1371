# SPDX-License-Identifier: Apache-2.0
"""Which samples share a micro-batch of which rank: Megatron-LM's schedulers, best fit, and the base of a user's own.

The schedules are made by the C core (``include/stoker/pack.h``); every rank computes the same one from the gathered
lengths, so nobody has to send it.
"""

from __future__ import annotations

from .. import _core
from ..errors import CallerError
from .registry import register_scheduler
from .words import whole, words

_DP_BALANCED, _BALANCED_CP, _BEST_FIT = range(3)


class PackingError(CallerError, AssertionError):
    """The samples cannot be packed for these ranks (an ``AssertionError``, as Megatron-LM raises)."""


def _schedule(kind: int, id_lengths, names=None, **options) -> list[list[list]]:
    ids = [sample_id for sample_id, _ in id_lengths]
    names = ids if names is None else names
    try:
        lengths = words([length for _, length in id_lengths], lambda place: f"the length of sample {names[place]!r}")
        groups = _core.pack_schedule(kind, lengths, **options)
    except CallerError as error:
        raise PackingError(error.message, error.context, error.status) from None
    return [[[ids[place] for place in places] for places in ranks] for ranks in groups]


class BasePackingScheduler:
    """Base of schedulers for :func:`wrap_data_iterator`: a subclass gives ``get_groups_and_subsamples``.

    ``get_groups_and_subsamples([(id, length), ...])`` returns, for each micro-batch, the ids of each of the
    ``dp_size * cp_size`` ranks. It must give the same result on every rank. A schedule that leaves a sample out is
    refused, unless the class says ``may_drop = True``.
    """

    may_drop = False

    def __init__(
        self,
        max_seqlen_per_dp_cp_rank: int,
        cp_size: int,
        dp_size: int,
        microbatch_group_size_per_vp_stage: int | None,
    ) -> None:
        self.max_seqlen_per_dp_cp_rank = max_seqlen_per_dp_cp_rank
        self.cp_size = cp_size
        self.dp_size = dp_size
        self.microbatch_group_size_per_vp_stage = microbatch_group_size_per_vp_stage

    def get_required_sample_keys(self) -> list[str]:
        """Keys that every sub-sample must have."""
        return ["tokens", "labels", "loss_mask", "position_ids", "original_seq_len", "padded_seq_len"]

    def get_groups_and_subsamples(self, sample_id_seqlens) -> list[list[list]]:
        """Ids by micro-batch, then rank, of ``[(id, length), ...]`` of one global batch; lengths in tokens, padded. A
        subclass gives it."""
        raise NotImplementedError(f"{type(self).__name__} has no get_groups_and_subsamples()")

    def run(
        self, data_iterator, num_microbatches: int, dp_group, tp_group, pp_group, dp_cp_group, dev=None, config=None
    ):
        """Load, schedule, exchange and pack one global batch; returns what :func:`wrap_data_iterator` returns."""
        from .entry import run_scheduler  # it knows the process groups; schedulers do not need them

        return run_scheduler(
            self, data_iterator, num_microbatches, dp_group, tp_group, pp_group, dp_cp_group, dev, config
        )

    def _options(self) -> dict[str, int]:
        names = dict(
            tokens_per_rank="max_seqlen_per_dp_cp_rank",
            data_ranks="dp_size",
            context_ranks="cp_size",
            stage_group="microbatch_group_size_per_vp_stage",
        )
        given = {option: getattr(self, name) for option, name in names.items()}
        given["stage_group"] = given["stage_group"] or 1
        try:
            return {option: whole(given[option], name) for option, name in names.items()}
        except CallerError as error:
            raise PackingError(error.message, error.context, error.status) from None


@register_scheduler("dp_balanced")
class DpBalancedScheduler(BasePackingScheduler):
    """Megatron-LM's ``dp_balanced``: packs are filled in the order of the samples."""

    def get_groups_and_subsamples(self, sample_id_seqlens) -> list[list[list]]:
        """Ids by micro-batch, then rank. A sample that is longer than the room of the ranks that share it is no error,
        as in Megatron-LM: it gets a pack of its own, which exceeds that room; an empty pack goes before it if it is the
        first sample."""
        return _schedule(_DP_BALANCED, list(sample_id_seqlens), **self._options())


@register_scheduler("best_fit")
class BestFitScheduler(BasePackingScheduler):
    """As few packs as best fit needs, then equal work of the ranks in each micro-batch and over all of them.

    The work of a sample of L tokens is ``L * L + linear_tokens * L``. With 0, ``linear_tokens`` is chosen so that both
    parts weigh the same over the batch; a model's own figure is about ``6 * hidden_size`` for causal attention.

    >>> BestFitScheduler(8, 1, 2, None).get_groups_and_subsamples([("a", 2), ("b", 6), ("c", 6), ("d", 2)])
    [[['a', 'b'], ['c', 'd']]]
    """

    linear_tokens = 0

    def get_groups_and_subsamples(self, sample_id_seqlens) -> list[list[list]]:
        """Ids by micro-batch, then rank: no more micro-batches than best fit needs. Raises :class:`PackingError` for a
        sample that is longer than the room of the ranks that share it."""
        pairs, options = list(sample_id_seqlens), self._options()
        made = _schedule(_BEST_FIT, pairs, linear_tokens=self.linear_tokens, **options)
        room = options["tokens_per_rank"] * options["context_ranks"]
        for sample_id, length in pairs:
            if length > room:
                raise PackingError(
                    f"sample {sample_id!r} has {int(length)} tokens, the ranks that share it have room for {room}: "
                    f"max_seqlen_per_dp_cp_rank {options['tokens_per_rank']} times cp_size {options['context_ranks']}"
                )
        return made


class BalancedCPScheduler:
    """Megatron-LM's balanced context parallelism: a long sample is shared by a power of two of ranks."""

    def __init__(self, max_seq_len_per_rank: int, dp_cp_group) -> None:
        self.max_seq_len_per_rank = max_seq_len_per_rank
        self.total_hdp_gpus = dp_cp_group.size()

    def gpus_needed(self, seq_len: int) -> int:
        """Ranks that share a sample of this length."""
        return _core.pack_ranks_needed(
            whole(seq_len, "seq_len"), whole(self.max_seq_len_per_rank, "max_seq_len_per_rank")
        )

    def get_total_workload(self, seq_length: int, cp_size: int | None = None) -> float:
        """Work of one of the ranks that share a sample."""
        return seq_length * seq_length / (self.gpus_needed(seq_length) if cp_size is None else cp_size)

    def make_buckets_equal(self, sample_seqlens, compute_estimator=None) -> list[list[tuple]]:
        """Cut (id, length) pairs, longest first, into buckets of about equal work (of ``get_total_workload``)."""
        if compute_estimator not in (None, self.get_total_workload):
            raise CallerError("buckets are made with get_total_workload; another estimator is not supported")
        pairs = list(sample_seqlens)
        lengths = words([length for _, length in pairs], lambda place: f"the length of sample {pairs[place][0]!r}")
        ends = _core.pack_buckets(lengths, whole(self.max_seq_len_per_rank, "max_seq_len_per_rank"))
        return [pairs[start:end] for start, end in zip([0, *ends], ends)]

    def get_groups_and_subsamples(self, sample_id_seqlens, config=None):
        """(lengths, ids) of each micro-batch and rank; ``config`` is not read."""
        pairs = list(sample_id_seqlens)
        groups = _schedule(
            _BALANCED_CP,
            list(enumerate(length for _, length in pairs)),
            names=[one for one, _ in pairs],
            tokens_per_rank=self.max_seq_len_per_rank,
            data_ranks=self.total_hdp_gpus,
        )
        lengths = [[[pairs[place][1] for place in rank] for rank in ranks] for ranks in groups]
        ids = [[[pairs[place][0] for place in rank] for rank in ranks] for ranks in groups]
        return lengths, ids
