"""``explain --why-not NODE``: the smallest change that makes a pod land on a node.

``changes`` holds the changes as data, ``hypothesis`` decides again with some of them,
``proposals`` says which change may help against a refusal, and ``search`` finds the fewest that
are needed. ``WhyNot`` (why_not_answer.py) is the answer. Start reading at ``search``. Questions and
their output import this package.
"""
