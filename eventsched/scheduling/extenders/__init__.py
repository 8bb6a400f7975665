"""Extenders: servers that are asked in the course of an attempt (ADR 13)."""
