"""Pipeline schedules, their event simulation, and what is live when."""

from __future__ import annotations

from projectors.pipeline.activations import ActivationCurve, activation_curves
from projectors.pipeline.automatic import AUTOMATIC_LIMITS, automatic
from projectors.pipeline.legal import V_CHUNKS, applicable, blocking, legal_groups, legal_microbatches
from projectors.pipeline.live import live_chunks, peak_in_flight
from projectors.pipeline.orders import Order, assemble, order
from projectors.pipeline.parts import PassParts
from projectors.pipeline.placement import placement, stages_of_ranks
from projectors.pipeline.simulate import PipelineDeadlock, compile_kernel, simulate, simulate_many
from projectors.pipeline.timeline import PassKind, Timeline, bubble_fraction, busy_seconds, rank_windows, stage_span
from projectors.pipeline.trace import chrome_trace, events, events_csv

__all__ = [
    "AUTOMATIC_LIMITS", "V_CHUNKS", "ActivationCurve", "Order", "PassKind", "PassParts", "PipelineDeadlock", "Timeline",
    "activation_curves", "applicable", "assemble", "automatic", "blocking", "bubble_fraction", "busy_seconds", "chrome_trace",
    "compile_kernel", "events", "events_csv", "legal_groups", "legal_microbatches", "live_chunks", "order", "peak_in_flight",
    "placement", "rank_windows", "simulate", "simulate_many", "stage_span", "stages_of_ranks",
]
