"""Operator to seconds on one device, and layers from their operators."""
