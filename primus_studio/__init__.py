"""The window and the command line. The only package that imports Qt."""
