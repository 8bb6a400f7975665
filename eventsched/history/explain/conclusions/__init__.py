"""What follows from an explanation: one dominant reason, and the next step.

Start with ``headline``. ``named_refusal`` chooses the reason, ``remedies`` and ``node_opening`` say
what to do, and ``reason_codes`` names reasons for programs. Explanations do not import this
package.
"""
