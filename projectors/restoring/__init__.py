"""From a measured, scaled-down run back to the target: the scaling, the kept records, and the run that a record holds."""
