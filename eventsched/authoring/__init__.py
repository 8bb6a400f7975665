"""For plugin authors: generate a plugin package, and check a plugin.

Start with ``checkup``: it runs the plugin in two subprocesses (``__main__``) and returns
``findings``. ``scaffold`` writes a new package from ``templates``. Only the command line imports
this package.
"""
