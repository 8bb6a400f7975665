"""KubeSchedulerConfiguration: read, checked, completed, resolved into profiles.

Start with ``configuration`` (text in, validated data out), then ``resolution`` (which plugins run
at which extension point). Imports ``framework``; assembly and the command line import it.
"""
