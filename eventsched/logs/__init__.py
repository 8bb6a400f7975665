"""What the process says on stderr while it runs: how lines look, what never stands in them, and
which committed records become lines. The log that decisions stand in is ``eventsched.eventlog``."""
