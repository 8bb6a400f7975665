"""What is in ``deploy/``, rendered and checked."""
