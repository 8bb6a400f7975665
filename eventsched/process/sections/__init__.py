"""Sections of the settings that need more than a few lines, and what all sections have in common.

Start with ``settings_part``. The whole document is in ``process/settings.py``, which imports these.
"""
