"""How commands give an answer: the forms that ``-o`` chooses, and the pager of long ones.

Start with ``answer_forms``. Every command that prints an answer takes its forms from there, so that
they are alike. The text of each answer is made in ``output``.
"""
