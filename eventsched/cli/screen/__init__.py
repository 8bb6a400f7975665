"""The live screen of ``top``.

``now_frame`` makes the text of one frame, and ``live_terminal`` shows frames and reads keys. What
frames are made of is in ``eventsched.output.terminal``.
"""
