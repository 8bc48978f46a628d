"""Run under torchrun by test_measuring.py: split modules against whole ones with the same weights."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor

from projectors.benchmark.attention import kernels_for
from projectors.benchmark.experts import RoutedExperts
from projectors.benchmark.layers import Situation
from projectors.benchmark.parallel import ALONE, Members
from projectors.benchmark.pieces import FeedForward
from projectors.inputs.loading import study_from_text

STUDY = study_from_text("""
model: {name: tiny, num_layers: 2, hidden_size: 16, ffn_hidden_size: 32, num_attention_heads: 4, num_query_groups: 2,
        vocab_size: 64, max_seq_len: 32, moe: {num_experts: 4, top_k: 2, moe_ffn_hidden_size: 8}}
cluster: {hardware: cpu, nodes: 1, gpus_per_node: 2}
recipe: {gbs: 2, seq_length: 16, precision: fp32}
""")


def situation(tp: Members, ep: Members, *, sequence_parallel: bool) -> Situation:
    device = torch.device("cpu")
    kernels = kernels_for(device, torch.float32, fp8=False)
    return Situation(STUDY.model, 1, 16, torch.float32, device, tp, ep, sequence_parallel, kernels)


def same(name: str, mine: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(mine, expected, rtol=1e-4, atol=1e-6)
    if dist.get_rank() == 0:
        print(name, "same")


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    pair = Members(dist.new_group([0, 1]), 2, rank)
    torch.manual_seed(0)
    whole = FeedForward(situation(ALONE, ALONE, sequence_parallel=False), 32)
    stream = torch.randn(16, 16)
    expected_in = stream.clone().requires_grad_()
    expected = whole(expected_in)
    expected.sum().backward()
    for sequence_parallel in (False, True):
        part = FeedForward(situation(pair, ALONE, sequence_parallel=sequence_parallel), 32)
        gate, up = whole.up.weight.chunk(2)
        part.up.weight.data = torch.cat([gate.chunk(2)[rank], up.chunk(2)[rank]])
        part.down.weight.data = whole.down.weight.data.chunk(2, dim=1)[rank].contiguous()
        own = (stream.chunk(2)[rank] if sequence_parallel else stream).clone().requires_grad_()
        out = part(own)
        out.sum().backward()
        if sequence_parallel:
            torch.testing.assert_close(own.grad, expected_in.grad.chunk(2)[rank], rtol=1e-4, atol=1e-6)
            same("sequence parallel", out, expected.chunk(2)[rank])
        else:
            torch.testing.assert_close(own.grad, expected_in.grad, rtol=1e-4, atol=1e-6)
            same("tensor parallel", out, expected)
    moe = STUDY.model.moe
    assert moe is not None
    torch.manual_seed(1)
    routed = RoutedExperts(situation(ALONE, ALONE, sequence_parallel=False), moe)
    split = RoutedExperts(situation(ALONE, pair, sequence_parallel=False), moe)
    split.router.weight.data = routed.router.weight.data
    split.up.data, split.down.data = routed.up.data[rank * 2 : rank * 2 + 2], routed.down.data[rank * 2 : rank * 2 + 2]
    torch.manual_seed(2 + rank)
    own = torch.randn(16, 16)
    same("expert parallel", split(own), routed(own))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
