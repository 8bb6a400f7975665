"""Replays a stream: applies its records, or makes every decision again and compares.

Start with ``stream_replay``. ``tolerances`` lists the known faults of old versions that make a
replay differ.
"""
