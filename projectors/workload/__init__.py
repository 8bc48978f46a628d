"""A model under a recipe as operators: FLOPs, parameters, saved bytes and traffic, each counted once."""
