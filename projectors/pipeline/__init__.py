"""Pipeline schedules."""
from projectors.pipeline.orders import applicable, live_chunks, order
from projectors.pipeline.simulate import simulate
from projectors.pipeline.timeline import bubble_fraction, busy_seconds
