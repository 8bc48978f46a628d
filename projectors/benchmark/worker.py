"""The measuring process: `python -m projectors.benchmark.worker JOB.json`, or under torchrun for several devices.

It says what it does line by line (`job.py`); whatever happens to it, the parent keeps what was said.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from projectors.benchmark import measure
from projectors.benchmark.attention import kernels_for
from projectors.benchmark.job import Job, JobStep, Said, say
from projectors.benchmark.layers import Situation
from projectors.benchmark.parallel import ALONE, Members
from projectors.benchmark.plan import StepKind
from projectors.benchmark.sweeps import sweep
from projectors.benchmark.telemetry import Watch, reader_of
from projectors.inputs.benchmark_record import DeviceKind
from projectors.inputs.hardware import Precision
from projectors.restoring.scaling import bare_columns
from projectors.workload.layers import distinct_kinds

DTYPES = {
    Precision.BF16: torch.bfloat16,
    Precision.FP16: torch.float16,
    Precision.FP32: torch.float32,
    Precision.FP8: torch.bfloat16,
    Precision.MXFP8: torch.bfloat16,
}
"""What tensors are stored in; fp8 recipes multiply in fp8 and store 16 bits."""


OUT_OF_MEMORY = ("out of memory", "not enough memory", "can't allocate memory")
"""How allocators say it: CUDA and HIP, and PyTorch's CPU allocator."""


def run(job: Job) -> None:
    """Measure every step of a job; one that fails says so and the next is tried."""
    rank, device = _join(job)
    if job.threads is not None:
        torch.set_num_threads(job.threads)
    at = _situation(job, device)
    tell = say if rank == 0 else _say_nothing
    tell(Said(event="started", data={"software": software(), "settings": at.kernels.names}))
    with Watch(reader_of(device.index or 0) if rank == 0 and device.type == "cuda" else None) as watch:
        for step in job.steps:
            tell(Said(event="measuring", what=step.what))
            try:
                measured = _measured(step, job, at, device)
                tell(Said(event="measured", what=step.what, data=measured.model_dump(mode="json")))
            except (RuntimeError, ValueError, NotImplementedError) as error:  # torch: out of memory, no kernel, wrong shapes
                tell(Said(event="failed", what=step.what, reason=reason_of(error)))
                if job.processes > 1:
                    raise  # the other processes wait in a collective: only a new start mends that
            if device.type == "cuda":
                torch.cuda.empty_cache()
    tell(Said(event="conditions", data=watch.conditions.model_dump(mode="json")))
    if dist.is_initialized():
        dist.destroy_process_group()


def _say_nothing(_said: Said) -> None:
    """One process speaks for all."""


def reason_of(error: BaseException) -> str:
    """Why a measurement failed, in one line."""
    told = str(error).lower()
    if isinstance(error, torch.OutOfMemoryError) or any(words in told for words in OUT_OF_MEMORY):
        return "the device ran out of memory"
    first_line = (str(error).splitlines() or [""])[0]
    return f"{type(error).__name__}: {first_line}"[:500]


def software() -> dict[str, str]:
    """Versions that a timing depends on."""
    found = {"python": sys.version.split()[0], "torch": torch.__version__}
    for name in ("cuda", "hip"):
        version = getattr(torch.version, name, None)
        if version:
            found[name] = str(version)
    if torch.cuda.is_available() and dist.is_nccl_available():
        found["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
    for module in ("flash_attn", "transformer_engine"):
        loaded = sys.modules.get(module)
        if loaded is not None:
            found[module] = str(getattr(loaded, "__version__", "unknown"))
    return found


def devices(kind: DeviceKind) -> list[dict[str, Any]]:
    """Devices of a kind, as plain data of `MeasuredDevice`."""
    if kind is DeviceKind.CUDA:
        found = [torch.cuda.get_device_properties(index) for index in range(torch.cuda.device_count())]
        return [
            {"kind": kind.value, "name": each.name, "memory_bytes": each.total_memory, "architecture": _architecture(each)}
            for each in found
        ]
    pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    threads = torch.get_num_threads()
    return [{"kind": kind.value, "name": "cpu", "memory_bytes": pages * size, "architecture": "", "threads": threads}]


def _architecture(properties: Any) -> str:
    """gfx942 and the like on AMD, sm_90 on NVIDIA."""
    return str(getattr(properties, "gcnArchName", "")).split(":")[0] or f"sm_{properties.major}{properties.minor}"


def _join(job: Job) -> tuple[int, torch.device]:
    """The rank and its device, after joining the others where there are any."""
    rank, local = int(os.environ.get("RANK", "0")), int(os.environ.get("LOCAL_RANK", "0"))
    device = torch.device("cuda", local) if job.device is DeviceKind.CUDA else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    if job.processes > 1:
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    return rank, device


def _situation(job: Job, device: torch.device) -> Situation:
    recipe = job.recipe
    dtype = DTYPES[recipe.precision]
    fp8 = recipe.precision in (Precision.FP8, Precision.MXFP8)
    return Situation(
        card=job.model, batch=recipe.mbs, seq_length=recipe.seq_length, dtype=dtype, device=device,
        tp=_members(recipe.tp, job), ep=_members(recipe.ep, job),
        sequence_parallel=recipe.uses_sequence_parallel, kernels=kernels_for(device, dtype, fp8=fp8),
    )


def _members(size: int, job: Job) -> Members:
    """The group of `size` neighboring ranks that this one is in; a job of collectives needs none."""
    if size == 1 or job.steps[0].kind is StepKind.COLLECTIVE:
        return ALONE
    rank = dist.get_rank()
    groups = [dist.new_group(list(range(start, start + size))) for start in range(0, job.processes, size)]
    return Members(groups[rank // size], size, rank % size)


def _measured(step: JobStep, job: Job, at: Situation, device: torch.device) -> Any:
    times = {"warm_up": job.warm_up, "repeats": job.repeats}
    if step.kind is StepKind.COLLECTIVE:
        memory = int(devices(job.device)[0]["memory_bytes"])
        return sweep(step.what, device, memory // (1 if device.type == "cuda" else job.processes), **times)
    columns = bare_columns(job.recipe, job.processes, job.vocabulary_multiple)
    kinds = {kind.label: kind for kind in distinct_kinds(job.model)}
    if step.kind is StepKind.OPTIMIZER:
        module, _ = measure.part_module(at, next(iter(kinds.values())), columns)
        return measure.measure_optimizer(module, job.recipe, device, **times)
    module, inputs = measure.part_module(at, kinds.get(step.what, step.what), columns)
    return measure.measure_part(step.what, module, inputs, at, **times)


def main(arguments: list[str]) -> int:
    """`--devices KIND` lists devices as JSON; else the path of a job."""
    if arguments[0] == "--devices":
        say(Said(event="measured", what="devices", data={"devices": devices(DeviceKind(arguments[1]))}))
        return 0
    run(Job.model_validate_json(Path(arguments[0]).read_text(encoding="utf-8")))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
