"""OpenTelemetry traces of attempts, made from committed records (docs/how-to/trace-attempts.md).

``attempt_spans`` is pure: records become spans with times and attributes. ``span_export`` passes
them to the OpenTelemetry SDK, which is imported only if tracing is on.
"""
