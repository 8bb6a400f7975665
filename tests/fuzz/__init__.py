"""Fuzzing of the boundaries at which data from outside comes in (README.md).

Start with ``targets``: one module per boundary. ``run`` fuzzes them with Atheris; ``test_corpus``
runs the stored inputs without it.
"""
