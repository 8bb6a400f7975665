"""``explain --why-not NODE``: the smallest change that makes a pod land on a node.

``changes`` holds the changes as data, ``hypothesis`` decides again with some of them,
``proposals`` says which change may help against a refusal, and ``search`` finds the fewest that
are needed. Start reading at ``search``. Only the command line and the web import this package.
"""
