"""What answers have on a terminal besides words: colours, bars, the live screen of ``top``.

Start with ``display``, which says what standard output can show. ``colours`` has the styles,
``bars`` makes bars and curves, ``score_table`` is the table that has bars, and
``character_fallback`` is for terminals without UTF-8. ``now_frame`` makes the text of one frame of
``top``, and ``live_terminal`` shows frames and reads keys.
"""
