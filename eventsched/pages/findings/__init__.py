"""What the pages about findings ask: anomalies, evictions, refusals by plugin; and the help page.

Start with ``anomalies`` (findings_question.py). ``screens`` has a row for each; like all pages they
know only the API's JSON.
"""
