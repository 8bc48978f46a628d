"""Every panel of the window. A new one is a file with `create` and a line here."""

from __future__ import annotations

from primus_studio.panels import benchmark, cluster, headline, memory, model, recipe, step, timeline
from primus_studio.panels.panel import Panel

PANELS = (
    Panel("recipe", "Recipe", "recipe", "Alt+1", "How the model is spread over the cluster and trained", recipe.create),
    Panel("model", "Model", "model", "Alt+2", "The architecture that is trained", model.create),
    Panel("cluster", "Cluster", "cluster", "Alt+3", "Nodes, accelerator and network", cluster.create),
    Panel("headline", "Result", "headline", "Alt+4", "Whether it fits and how fast it is", headline.create),
    Panel("timeline", "Pipeline timeline", "timeline", "Alt+5", "Every pass of every pipeline rank", timeline.create),
    Panel("benchmark", "Benchmark", "benchmark", "Alt+8", "Layers and collectives, measured on this machine", benchmark.create),
    Panel("memory", "Memory per GPU", "memory", "Alt+6", "Bytes of every rank against what the device has", memory.create),
    Panel("step", "Step time", "step", "Alt+7", "Where the time of one optimizer step goes", step.create),
)
