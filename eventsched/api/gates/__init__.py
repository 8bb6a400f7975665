"""Which clients are served, and what each may see.

``gate`` says what a gate is, and has the one of a port that only this machine reaches;
``static_tokens`` reads a file, ``delegated_gate`` asks the API server. The application and the
server import them.
"""
