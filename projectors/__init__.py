"""The projection engine: model card, cluster and recipe in; memory per GPU and throughput out."""
