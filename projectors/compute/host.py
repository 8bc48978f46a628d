"""Host time: what the training process needs to issue a layer, which is what small layers wait for.

Measured as a whole on Megatron-LM's own tests (H100, layers of hidden size 512 whose kernels take a tenth of the time):
12 dense layers take 47.5 ms per microbatch without CUDA graphs, 12 layers with routed experts 112 ms (golden values of the
functional tests `gpt3_mcore_tp4_pp1_*` and `gpt3_mcore_te_tp2_pp1_te_8experts*`, dev_dgx_h100).
"""

from __future__ import annotations

from projectors.inputs.recipe import MoeDispatch

HOST_FORWARD = 125e-6
"""Host seconds to issue one operator's forward pass: 47.5 ms over 12 layers of 10 operators and 6 at the ends, a third."""

HOST_BACKWARD = 250e-6
"""The other two thirds: autograd and both gradients."""

DISPATCH_FORWARD = 1.2e-3
"""Host seconds of a routed layer beyond its operators, forward: counts of tokens per expert are copied to the host, which
waits for them. 112 ms less 12 layers' operators leave 3.7 ms a layer, a third of it forward."""

DISPATCH_BACKWARD = 2.5e-3

DISPATCH_SHARE: dict[MoeDispatch, float] = {
    MoeDispatch.ALLGATHER: 1.0,
    MoeDispatch.ALLTOALL: 1.0,
    MoeDispatch.DEEPEP: 0.5,
    MoeDispatch.SYNC_FREE_1: 0.25,
    MoeDispatch.SYNC_FREE_2: 0.1,
    MoeDispatch.SYNC_FREE_3: 0.0,
}
"""How much of that remains. DeepEP fuses the bookkeeping of dispatch and combine; sync-free stages remove the waits one by
one and the last removes all (Primus `turbo_sync_free_moe_stage`); values between none and all are assumed."""

STEP_SECONDS = 3e-3
"""Host seconds per step outside the passes (data iterator, logging, learning rate): the same tests, 50.0 ms with one
microbatch, 190 ms with four."""
