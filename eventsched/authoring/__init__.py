"""For people who write plugins: a package to begin with, and a check of what they wrote."""
