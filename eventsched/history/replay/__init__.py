"""A stream again: its state read back, or every decision made again and compared.

Start with ``stream_replay``. ``tolerances`` names the faults of old versions that may differ.
"""
