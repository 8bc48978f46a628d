"""A projection for scripts (the JSON of the contract) and for people (aligned text with units)."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from projectors.communication.groups import GIGA
from projectors.inputs.study import Study
from projectors.legality import Violation
from projectors.pipeline import bubble_fraction, events
from projectors.results import ExposedCommunication, MemoryBreakdown, MemoryComponent, Projection, RankMemory
from projectors.text import (
    bytes_text,
    count_text,
    gib_text,
    number_text,
    percent_text,
    rate_text,
    seconds_text,
    table_text,
    tflops_text,
)

EXPOSED_AXES = tuple(ExposedCommunication.__dataclass_fields__)


def projection_json(projection: Projection) -> dict[str, Any]:
    """What `project --json` prints. Parts that an illegal recipe does not have are null."""
    return {
        **_verdict_json(projection),
        "memory": _memory_json(projection.memory),
        "step": _step_json(projection),
        "throughput": _throughput_json(projection),
        "pipeline": _pipeline_json(projection),
        "parameters": _parameters_json(projection),
        "origin": {"compute": projection.origin_compute.value, "communication": projection.origin_communication.value},
        "warnings": list(projection.warnings),
        **({"audit": [asdict(entry) for entry in projection.audit]} if projection.audit else {}),
    }


def memory_json(projection: Projection) -> dict[str, Any]:
    """What `memory --json` prints: the verdict and the memory part of the projection."""
    return {
        **_verdict_json(projection),
        "memory": _memory_json(projection.memory),
        "parameters": _parameters_json(projection),
        "warnings": list(projection.warnings),
    }


def timeline_json(projection: Projection) -> dict[str, Any]:
    """What `timeline --json` prints: the verdict, the pipeline, and its events (seconds from the start of the step)."""
    timeline = projection.timeline
    return {
        **_verdict_json(projection),
        "pipeline": _pipeline_json(projection),
        "ranks": timeline.ranks if timeline else None,
        "chunks": timeline.chunks if timeline else None,
        "events": events(timeline) if timeline else [],
        "warnings": list(projection.warnings),
    }


def violation_json(violation: Violation) -> dict[str, Any]:
    """One entry of `illegal`."""
    return {"rule": violation.rule, "fields": list(violation.fields), "reason": violation.reason, "nearest": violation.nearest}


def _verdict_json(projection: Projection) -> dict[str, Any]:
    return {
        "legal": projection.legal,
        "illegal": [violation_json(violation) for violation in projection.violations],
        "feasible": projection.feasible,
        "dp": projection.dp,
        "gpus": projection.gpus,
        "microbatches": projection.microbatches,
    }


def _memory_json(memory: MemoryBreakdown | None) -> dict[str, Any] | None:
    if memory is None:
        return None
    return {
        "peak_bytes": memory.peak_bytes,
        "capacity_bytes": memory.capacity_bytes,
        "peak_rank": memory.peak_rank,
        "ranks": [_rank_json(rank) for rank in memory.ranks],
        "kinds": [_kinds_json(rank) for rank in memory.ranks],
    }


def _rank_json(rank: RankMemory) -> dict[str, Any]:
    return {
        "rank": rank.rank,
        **{component.value: int(rank.nbytes.get(component, 0)) for component in MemoryComponent},
        "total": int(rank.total),
        "in_flight": rank.in_flight,
    }


def _kinds_json(rank: RankMemory) -> dict[str, int]:
    """Of a rank's total, what PyTorch's allocator has handed out and what it holds; the range of the total."""
    return {"rank": rank.rank, "allocated": rank.allocated, "reserved": rank.reserved, "low": rank.low, "high": rank.high}


def _step_json(projection: Projection) -> dict[str, Any] | None:
    step = projection.step
    if step is None:
        return None
    return {
        "seconds": step.seconds,
        "compute": step.compute,
        "recompute": step.recompute,
        "bubble": step.bubble,
        "optimizer": step.optimizer,
        "other": step.other,
        "exposed": {axis: getattr(step.exposed, axis) for axis in EXPOSED_AXES},
    }


def _throughput_json(projection: Projection) -> dict[str, Any] | None:
    rates = projection.throughput
    if rates is None:
        return None
    return {
        "tokens_per_s_per_gpu": rates.tokens_per_s_per_gpu,
        "tokens_per_s": rates.tokens_per_s,
        "model_tflops_per_gpu": rates.model_tflops_per_gpu,
        "mfu": rates.mfu,
    }


def _pipeline_json(projection: Projection) -> dict[str, Any] | None:
    timeline = projection.timeline
    if timeline is None:
        return None
    return {
        "schedule": timeline.schedule.value,
        "makespan": float(timeline.makespan),
        "bubble_fraction": float(bubble_fraction(timeline)),
    }


def _parameters_json(projection: Projection) -> dict[str, Any] | None:
    parameters = projection.parameters
    if parameters is None:
        return None
    per_rank = [rank.parameter_count for rank in projection.memory.ranks] if projection.memory else []
    return {"total": parameters.total, "active": parameters.active, "per_rank": per_rank}


def projection_text(study: Study, projection: Projection) -> str:
    """What `project` prints for people."""
    parts = [heading_text(study, projection), verdict_text(projection)]
    if projection.throughput and projection.step and projection.timeline:
        rates = projection.throughput
        headline = (
            ("Throughput", rate_text(rates.tokens_per_s_per_gpu)),
            ("", f"{rate_text(rates.tokens_per_s, 'tok/s')}, {count_text(rates.tokens_per_day)} tok/day"),
            ("Model FLOPs", f"{tflops_text(rates.model_tflops_per_gpu)} per GPU"),
            ("MFU", percent_text(rates.mfu)),
            ("Bubble", percent_text(float(bubble_fraction(projection.timeline)))),
        )
        parts.append("\n".join(f"{label:<12} {value}" for label, value in headline))
        parts.append(step_text(projection))
    if projection.communication:
        parts.append(communication_text(projection))
    if projection.memory:
        parts.append(memory_text(projection.memory))
    if projection.audit:
        parts.append(audit_text(projection))
    parts += [f"Note: {warning}." for warning in projection.warnings]
    return "\n\n".join(parts)


def audit_text(projection: Projection) -> str:
    """How the seconds of every measured pass came about."""
    rows = [
        (
            entry.part, entry.name, seconds_text(entry.measured), seconds_text(entry.communication_measured),
            seconds_text(entry.simulated), seconds_text(entry.target), f"{entry.ratio:.3f}", seconds_text(entry.compute),
            seconds_text(entry.communication), seconds_text(entry.total),
        )
        for entry in projection.audit
    ]
    head = (
        "part", "pass", "measured", "of it\nsent", "simulated\ncompute", "simulated\ntarget", "measured\n/ simulated",
        "target\ncompute", "target\nsent", "target",
    )
    says = f"Layer times {projection.origin_compute.value}: (measured - sent) / simulated compute x simulated target + sent"
    return f"{says}\n{table_text(head, rows)}"


def heading_text(study: Study, projection: Projection) -> str:
    """What is projected, in two lines; what follows from an illegal recipe is left out."""
    recipe, cluster = study.recipe, study.cluster
    degrees = "  ".join(f"{name} {getattr(recipe, name)}" for name in ("tp", "pp", "vpp", "cp", "ep", "etp"))
    schedule = projection.timeline.schedule.value if projection.timeline else recipe.schedule.value
    batch = f"{recipe.mbs} x {number_text(recipe.seq_length)} tokens"
    if projection.legal:
        degrees, batch = f"{degrees}  dp {projection.dp}", f"{projection.microbatches} microbatches of {batch}"
    size = f" ({count_text(projection.parameters.total)} parameters)" if projection.parameters else ""
    return (
        f"{study.model.name}{size} on {cluster.name}: {cluster.nodes} x {cluster.gpus_per_node} {cluster.hardware.name}\n"
        f"{degrees}  {recipe.precision.value}  {schedule}  {batch}"
    )


def verdict_text(projection: Projection) -> str:
    """Whether the recipe is legal and fits, and by how much (not)."""
    memory = projection.memory
    if not projection.legal:
        return f"Illegal: {len(projection.violations)} rule{'s' if len(projection.violations) > 1 else ''} broken."
    if memory is None:
        return "Memory is not known."
    spare = memory.budget_bytes - memory.peak_bytes
    verdict = f"Fits with {bytes_text(spare)} to spare" if memory.feasible else f"Does not fit by {bytes_text(-spare)}"
    peak, capacity = bytes_text(memory.peak_bytes), bytes_text(memory.capacity_bytes)
    return f"{verdict}: {peak} on rank {memory.peak_rank} of {capacity}, of which {percent_text(memory.margin)} is to stay free."


def step_text(projection: Projection) -> str:
    """Where the time of a step goes, parts of zero left out."""
    step = projection.step
    if step is None:
        return ""
    rows = [(label, seconds_text(seconds), percent_text(seconds / step.seconds)) for _, label, seconds in step.parts() if seconds]
    return table_text(("Step", "time", "share"), [*rows, ("Total", seconds_text(step.seconds), percent_text(1.0))])


def communication_text(projection: Projection) -> str:
    """Every collective of a step: who takes part, how it is done, bytes and seconds."""
    header = (
        "Collective", "group", "size", "per\nnode", "crosses", "algorithm", "bytes\na call", "time\na call", "calls\na step",
        "time\na step", "exposed", "bus\nGB/s",
    )
    rows = [
        (
            row.kind,
            row.axis,
            str(row.size),
            str(row.per_node),
            row.tiers[-1],
            row.algorithm,
            bytes_text(row.nbytes),
            seconds_text(row.seconds),
            number_text(row.calls),
            seconds_text(row.total),
            seconds_text(row.exposed),
            number_text(row.bus_bandwidth / GIGA),
        )
        for row in projection.communication
    ]
    return table_text(header, rows)


def memory_text(memory: MemoryBreakdown) -> str:
    """Memory of one GPU of every pipeline rank in GiB, components that no rank has left out."""
    shown = [component for component in MemoryComponent if any(rank.nbytes.get(component) for rank in memory.ranks)]
    header = ("rank", *(component.label.replace(" ", "\n", 1) for component in shown), "Total", "Microbatches\nin flight")
    rows = [
        (
            str(rank.rank),
            *(gib_text(rank.nbytes.get(component, 0)) for component in shown),
            gib_text(rank.total),
            number_text(rank.in_flight),
        )
        for rank in memory.ranks
    ]
    peak = memory.ranks[memory.peak_rank]
    allocated, reserved, total, low, high = map(gib_text, (peak.allocated, peak.reserved, peak.total, peak.low, peak.high))
    kinds = (
        f"Rank {peak.rank}: {allocated} GiB allocated, {reserved} reserved, {total} on the device, "
        f"{low} to {high} over the range of the framework's terms."
    )
    return "Memory per GPU, GiB\n" + table_text(header, rows) + f"\n{kinds}"


def timeline_text(projection: Projection) -> str:
    """The pipeline in numbers: one row per rank; "" without a timeline."""
    timeline = projection.timeline
    if timeline is None:
        return ""
    ends = float(timeline.makespan)
    rows = []
    for rank in range(timeline.ranks):
        mine = timeline.rank == rank
        busy = float((timeline.end[mine] - timeline.start[mine]).sum())
        times = (float(timeline.start[mine].min()), float(timeline.end[mine].max()), busy)
        rows.append((str(rank), str(int(mine.sum())), *map(seconds_text, times), percent_text(1 - busy / ends)))
    head = (
        f"{timeline.schedule.value}: {timeline.ranks} ranks x {timeline.chunks} chunks, {timeline.microbatches} microbatches, "
        f"makespan {seconds_text(ends)}, bubble {percent_text(float(bubble_fraction(timeline)))}"
    )
    return head + "\n\n" + table_text(("rank", "passes", "first start", "last end", "busy", "idle"), rows)


def reasons(projection: Projection) -> list[str]:
    """Why a recipe is illegal or infeasible, one sentence each; none when it is neither."""
    found = [violation_text(violation) for violation in projection.violations]
    if not found and not projection.feasible:
        found.append(verdict_text(projection))
    return found


def violation_text(violation: Violation) -> str:
    """One broken rule in one line, with the nearest legal value."""
    hint = "" if violation.nearest is None else f"; nearest legal {violation.fields[0]} is {violation.nearest}"
    return f"{violation.fields[0]}: {violation.reason}{hint} [{violation.rule}]"

