"""The past of a stream: told, decided again, verified. Reads logs, writes none."""
