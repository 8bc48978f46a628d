"""What overlap hides of a collective and what stays exposed, in seconds. Nothing hides behind more compute than there is.

Kernels of collectives run on compute units that the compute beside them then lacks: a hidden second costs
`communication_share` of a second (`ClusterSpec.contention` turns it off). That loss counts as exposed. Where the hidden part is
a measured ceiling (dispatchers, FSDP2) the loss is in it already.
"""

from __future__ import annotations

from projectors.columns import Columns, Quantity, at_least, at_most
from projectors.inputs.recipe import MoeDispatch

DISPATCH_HIDDEN: dict[MoeDispatch, float] = {
    MoeDispatch.ALLGATHER: 0.0,
    MoeDispatch.ALLTOALL: 0.0,
    MoeDispatch.DEEPEP: 0.65,
    MoeDispatch.SYNC_FREE_1: 0.75,
    MoeDispatch.SYNC_FREE_2: 0.80,
    MoeDispatch.SYNC_FREE_3: 0.85,
}
"""Part of the expert exchange that each dispatcher hides behind the layer's compute (Primus projection, facts 2.3)."""

GATHER_FORWARD_HIDDEN = 0.95
GATHER_BACKWARD_HIDDEN = 0.93
SCATTER_HIDDEN = 0.92
"""Most that prefetching hides of parameter gathers and gradient scatters (Primus projection, FSDP2 ceilings, facts 2.5)."""

BUCKET_PARAMETERS = 40e6
BUCKET_PARAMETERS_PER_RANK = 1e6
"""Parameters of a gradient bucket: the larger of 40 M and 1 M per data-parallel rank (Megatron-Core
`DistributedDataParallelConfig.bucket_size`)."""


def tensor_parallel_exposed(communication: Quantity, gemm: Quantity, columns: Columns) -> Quantity:
    """Tensor-parallel communication beside the GEMM that it feeds or drains.

    With `tp_overlap` the product is cut into tp pieces that pass round the group while earlier ones are multiplied, so one
    piece of tp stays exposed at an end (Wang et al., ASPLOS 2023; Transformer Engine's userbuffers).
    """
    if not columns.tp_overlap:
        return communication
    hidden = at_most(communication * (columns.tp - 1) / columns.tp, gemm)
    return communication - hidden * (1 - columns.communication_share)


def ring_exposed(communication: Quantity, attention: Quantity, columns: Columns) -> Quantity:
    """Context-parallel blocks travel while attention works on the blocks that are there (arXiv:2310.01889)."""
    return communication - at_most(communication, attention) * (1 - columns.communication_share)


def expert_exchange_exposed(communication: Quantity, compute: Quantity, columns: Columns) -> Quantity:
    """Expert all-to-all of a layer beside the layer's compute in the same direction.

    A dispatcher's own overlap and overlap with another microbatch's compute do not add up: the larger counts. The latter
    leaves the first and last microbatch of a rank without a partner, so at most (m - 1) / m hides (arXiv:2412.19437, 3.2).
    Where the pipeline schedule pairs the passes, these are the seconds of a pass that has a partner, which hides all.
    """
    hidden = at_most(DISPATCH_HIDDEN[columns.moe_dispatch] * communication, compute)
    if columns.moe_overlap:
        paired = 1.0 if columns.pairs_passes else 1 - 1 / columns.microbatches
        hidden = at_least(at_most(paired * communication, compute) * (1 - columns.communication_share), hidden)
    return communication - hidden


def sharded_forward_exposed(gather: Quantity, compute: Quantity) -> Quantity:
    """Gather of a layer's parameters, prefetched behind the forward pass of the layer before."""
    return gather - at_most(GATHER_FORWARD_HIDDEN * gather, compute)


def sharded_backward_exposed(gather: Quantity, scatter: Quantity, compute: Quantity) -> Quantity:
    """Gather of the next layer's parameters and scatter of the last one's gradients behind a layer's backward pass."""
    return gather + scatter - at_most(GATHER_BACKWARD_HIDDEN * gather + SCATTER_HIDDEN * scatter, compute)


def bucketed_exposed(communication: float, parameters: float, replicas: float, window: float, columns: Columns) -> float:
    """Bucketed reduction (or gather) of a rank's parameters behind a pass of `window` seconds, those that leave its links idle.

    Buckets go out as they fill; the last one (for a gather: the first) has nothing left to hide behind.
    """
    bucket = max(BUCKET_PARAMETERS, BUCKET_PARAMETERS_PER_RANK * replicas)
    last = communication * min(1.0, bucket / parameters) if parameters > 0 else 0.0
    exposed = max(last, communication - max(window, 0.0))
    return exposed + (communication - exposed) * columns.communication_share
