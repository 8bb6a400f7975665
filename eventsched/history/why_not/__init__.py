"""``explain --why-not NODE``: changes that make a pod land on a node.

No part of such a change can be left out, and it removes few pods.

``changes`` holds the changes as data, ``hypothesis`` decides again with some of them,
``proposals`` says which change may help against a refusal, ``fewest_victims`` which pods to remove
for room, and ``search`` leaves out what is not needed. ``WhyNot`` (why_not_answer.py) is the
answer. Start reading at ``search``. Questions and their output import this package.
"""
