"""What to name for the nodes that PreFilter left out, which have no verdict of their own.

If PreFilter refused the pod, the attempt has the plugin, and its message is the reason. If plugins
only named the nodes that they allow, the message of the attempt names these plugins. View pods_now
has the same (migrations/sql/0022_views.sql).
"""

from typing import Any

from eventsched.domain.records.verdicts import STORED_EXCLUDED
from eventsched.history.named_refusal import NARROWED
from eventsched.questions.rows import EXCLUDED_UNNAMED, Refusal, Rows

_PLUGINS = NARROWED.pattern.replace("'", "''")
"""The pattern as a text of SQL, where ``substring`` gives its group."""
_WITH_REASON = _PLUGINS.replace("([^]]+)", "[^]]+")
"""The same without a group: the whole text."""
IS_EXCLUDED = f"n.verdict = {STORED_EXCLUDED}"
"""Whether a row n of pod_now has no other verdict, as SQL. With another one, that is named."""
PLUGIN = f"coalesce(nullif(n.plugin, ''), substring(n.message FROM '{_PLUGINS}'))"
"""The plugin of such a row, or several with spaces between; null if none is known."""
REASON = f"""CASE WHEN n.plugin <> '' THEN n.message
ELSE coalesce(substring(n.message FROM '{_WITH_REASON}'), '{EXCLUDED_UNNAMED.reason}') END"""
"""The reason of such a row."""
PLUGIN_TO_NAME = f"CASE WHEN n.verdict IS NULL THEN n.plugin WHEN {IS_EXCLUDED} THEN {PLUGIN} END"
REASON_TO_NAME = f"CASE WHEN n.verdict IS NULL THEN n.message WHEN {IS_EXCLUDED} THEN {REASON} END"
"""The plugin and the reason of the attempt; null if those of a verdict are named."""


def excluded_refusal(plugin: str | None, message: str | None) -> Refusal:
    """What to name of a failed attempt that left all nodes out, with its plugin and message."""
    if plugin:
        return Refusal(plugin, EXCLUDED_UNNAMED.code, message or "")
    found = NARROWED.search(message or "")
    return EXCLUDED_UNNAMED if found is None else Refusal(found[1], EXCLUDED_UNNAMED.code, found[0])


def refusal_to_name(rows: Rows, number: int, row: Any) -> Refusal:
    """What the verdict ``number`` means that is named first of a row with the columns of pod_now.
    Raises UnavailableError."""
    if number == STORED_EXCLUDED:
        return excluded_refusal(row["plugin"], row["message"])
    return rows.refusals([number])[number]
