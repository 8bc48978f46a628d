"""What a pass consists of beside its compute, and the optimizer step after the passes: for whoever draws a timeline."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from projectors.pipeline.placement import stages_of_ranks
from projectors.pipeline.timeline import Timeline

Seconds = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class PassParts:
    """Seconds within the passes of one timeline, and of each rank's optimizer step.

    The tables [2, V, 4] hold seconds by whether the pass runs inside a block, virtual stage, and `PassKind`.
    """

    inside: NDArray[np.bool_]       # [N], as the timeline: runs in one block with a pass of another microbatch
    recompute: Seconds              # [2, V, 4]: forward passes run again, at the start of a backward pass
    communication: Seconds          # [2, V, 4]: what nothing hides
    optimizer_start: Seconds        # [ranks], from the start of the step
    optimizer_end: Seconds          # [ranks]

    def recompute_of(self, timeline: Timeline) -> Seconds:
        """[N] seconds of each pass."""
        return self._of(self.recompute, timeline)

    def communication_of(self, timeline: Timeline) -> Seconds:
        """[N] seconds of each pass."""
        return self._of(self.communication, timeline)

    def _of(self, table: Seconds, timeline: Timeline) -> Seconds:
        stages = stages_of_ranks(timeline.schedule, timeline.ranks, timeline.chunks)
        of_passes: Seconds = table[self.inside.astype(np.intp), stages[timeline.rank, timeline.chunk], timeline.kind]
        return of_passes
