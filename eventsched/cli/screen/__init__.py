"""What ``eventsched top`` draws on a terminal.

``now_frame`` makes the text of one frame, ``colours`` decides whether it has colours, and
``live_terminal`` puts frames on the terminal and reads keys.
"""
