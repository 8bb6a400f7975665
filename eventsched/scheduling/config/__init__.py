"""KubeSchedulerConfiguration: read, checked, completed, resolved into profiles."""
