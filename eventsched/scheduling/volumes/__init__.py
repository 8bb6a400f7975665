"""Rules that the volume plugins share."""
