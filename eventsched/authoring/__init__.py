"""For people who write plugins: a package to begin with, and a check of what they wrote.

Start with ``checkup``: it runs a plugin in processes of its own (``__main__``) and reports
``findings``. ``scaffold`` makes a new package of ``templates``. The command line imports it.
"""
