"""What ``eventsched top`` draws on a terminal, and the bars of ``explain``.

``now_frame`` makes the text of one frame, ``bars`` makes bars and curves, ``colours`` decides
whether there are colours, and ``live_terminal`` puts frames on the terminal and reads keys.
"""
