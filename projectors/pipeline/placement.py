"""Which rank runs which virtual stage."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from projectors.inputs.recipe import Schedule


@lru_cache(maxsize=1024)
def placement(schedule: Schedule, ranks: int, chunks: int) -> NDArray[np.int64]:
    """Rank of each virtual stage, [ranks * chunks], in model order: round and round (Megatron-LM, arXiv:2104.04473, 2.2.2),
    or for V-shaped schedules down and back up (arXiv:2405.15362, section 3). DualPipe's second copy of the model runs from the
    last rank to the first; its stages come after those of the first copy (arXiv:2412.19437, section 3.2.1)."""
    loop = np.tile(np.arange(ranks, dtype=np.int64), (chunks, 1))
    if schedule.ends_meet:
        loop[1::2] = loop[1::2, ::-1]
    ranks_of = loop.ravel()
    ranks_of.flags.writeable = False
    return ranks_of


@lru_cache(maxsize=1024)
def stages_of_ranks(schedule: Schedule, ranks: int, chunks: int) -> NDArray[np.int64]:
    """Virtual stage of each chunk of each rank, [ranks, chunks]; chunks count in model order."""
    stages = np.argsort(placement(schedule, ranks, chunks), kind="stable").reshape(ranks, chunks)
    stages.flags.writeable = False
    return stages
