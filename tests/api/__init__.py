"""Tests of the HTTP API and of the questions behind it."""
