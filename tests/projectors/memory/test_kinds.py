"""What a memory figure counts: tensors, what the allocator holds, the whole device; and the range of its terms."""

from __future__ import annotations

import pytest

from projectors.inputs import library
from projectors.inputs.changing import replace
from projectors.inputs.measured import Measurement, MemoryKind, MemoryRank
from projectors.inputs.study import Study
from projectors.projection import project_study
from projectors.results import MemoryBreakdown
from projectors.validation import memory_as_measured

GIB = 2**30
NO_RANGES = dict.fromkeys(f"{term}_range" for term in ("context_gib", "communicator_mib", "workspace_mib", "fragmentation"))
FIGURES = {"context_gib": 2.0, "communicator_mib": 512.0, "workspace_mib": 256.0, "fragmentation": 0.1}


def memory(study: Study) -> MemoryBreakdown:
    found = project_study(study).memory
    assert found is not None
    return found


def with_figures(name: str, **more: object) -> Study:
    return replace(library.study(name), "framework", {"name": "own", **NO_RANGES, **FIGURES, **more})


def test_one_gpu_has_no_communicators() -> None:
    """Reserved is allocated and its slack, the device that and its context."""
    (rank,) = memory(with_figures("llama3.1-8b-h100-1x1")).ranks
    assert rank.reserved == pytest.approx(1.1 * rank.allocated, abs=2)
    assert rank.total == pytest.approx(rank.reserved + 2 * GIB, abs=9)  # every component is rounded up


def test_workspaces_come_from_the_allocator() -> None:
    (with_them,) = memory(with_figures("llama3.1-8b-h100-1x1")).ranks
    (without,) = memory(with_figures("llama3.1-8b-h100-1x1", workspace_mib=0)).ranks
    assert with_them.allocated - without.allocated == 256 * 2**20


def test_communicators_are_on_the_device_alone() -> None:
    """tp 8 on 64 GPUs, pp 1: the world, tp, data parallel of dense and of expert parameters."""
    study = replace(with_figures("llama3.1-70b-h100-8x8"), "recipe", {"tp": 8, "gbs": 64, "seq_length": 8192})
    (rank,) = memory(study).ranks
    (none,) = memory(replace(study, "framework.communicator_mib", 0)).ranks
    assert (rank.allocated, rank.reserved) == (none.allocated, none.reserved)
    assert rank.total - none.total == 4 * 512 * 2**20


def test_the_range_of_the_total_is_that_of_its_terms() -> None:
    ends = {"context_gib_range": [1.0, 4.0], "fragmentation_range": [0.0, 0.2]}
    (rank,) = memory(with_figures("llama3.1-8b-h100-1x1", **ends)).ranks
    assert rank.low == pytest.approx(rank.allocated + GIB, abs=2)
    assert rank.high == pytest.approx(1.2 * rank.allocated + 4 * GIB, abs=2)
    assert rank.low < rank.total < rank.high


def test_terms_without_a_range_have_none() -> None:
    (rank,) = memory(with_figures("llama3.1-8b-h100-1x1")).ranks
    assert rank.low == pytest.approx(rank.total, abs=9)
    assert rank.high == pytest.approx(rank.total, abs=9)


def test_a_measured_figure_is_compared_with_its_own_kind_and_rank() -> None:
    study = replace(with_figures("llama3.1-70b-h100-8x8"), "recipe", {"tp": 8, "pp": 4, "gbs": 64, "seq_length": 8192})
    found = memory(study)
    first, last = found.ranks[0], found.ranks[-1]
    assert first.allocated > last.allocated

    def compared(kind: MemoryKind, rank: MemoryRank) -> int:
        return memory_as_measured(found, Measurement(memory_gib=1.0, memory_kind=kind, memory_rank=rank))

    assert compared(MemoryKind.ALLOCATED, MemoryRank.LAST) == last.allocated
    assert compared(MemoryKind.RESERVED, MemoryRank.FIRST) == first.reserved
    assert compared(MemoryKind.DEVICE, MemoryRank.PEAK) == found.peak_bytes


def test_a_figure_outside_its_range_is_an_end_of_it() -> None:
    (rank,) = memory(with_figures("llama3.1-8b-h100-1x1", context_gib_range=[0.5, 1.0])).ranks
    assert rank.low == pytest.approx(rank.total - 1.5 * GIB, abs=9)
    assert rank.high == pytest.approx(rank.total, abs=9)
