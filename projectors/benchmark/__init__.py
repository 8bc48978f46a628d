"""Measures layers, the optimizer and collectives on local devices. The only package that imports torch, in its own process."""
