"""Functions of shells that offer names: what the script of ``eventsched completion`` calls.

They pass the line as it is typed, because a shell has split its words elsewhere: bash at ``:``, zsh
by the command's options.
"""

from argparse import Action

KIND_BY_PLACEHOLDER = {
    "POD": "pods",
    "POD|WORKLOAD": "targets",
    "NODE": "nodes",
    "NAMESPACE": "namespaces",
    "POS|TIME": "positions",
    "POSITION": "positions",
    "SEQ": "positions",
}
"""What the placeholder of a value means."""

_CALLERS = {
    "bash": """
# $1=kind
_eventsched_names() {
  local name
  while IFS=$'\\t' read -r name _; do printf '%s\\n' "$name"; done < <(
    eventsched __complete "$1" "${COMP_LINE:0:COMP_POINT}" 2>/dev/null </dev/null)
}
""",
    "zsh": """
# $1=kind
_eventsched_names() {
  local -a offered
  offered=("${(@f)$(eventsched __complete "$1" "$LBUFFER" 2>/dev/null </dev/null)}")
  offered=("${(@)offered:#}")
  (( $#offered )) || return 1
  offered=("${(@)offered//:/\\\\:}")
  offered=("${(@)offered/$'\\t'/:}")
  _describe -V "$1" offered
}
""",
    "fish": """
# $argv[1]=kind
function _eventsched_names
  eventsched __complete $argv[1] (commandline -cp | string collect) 2>/dev/null </dev/null
end
""",
}
_OF_KIND = {
    "bash": '_eventsched_names_of_{kind}() {{ _eventsched_names {kind} "$1"; }}',
    "zsh": "_eventsched_names_of_{kind}() {{ _eventsched_names {kind} }}",
}


def preamble(shell: str) -> str:
    """The functions of a shell."""
    each = _OF_KIND.get(shell, "")
    kinds = sorted({*KIND_BY_PLACEHOLDER.values(), "streams"}) if each else []
    return _CALLERS[shell] + "\n".join(each.format(kind=kind) for kind in kinds)


def name_completion(action: Action) -> dict[str, str] | None:
    """What shtab takes as an action's ``complete``, if its value is a name that is stored."""
    metavar = action.metavar if isinstance(action.metavar, str) else ""
    kind = "streams" if action.option_strings == ["--stream"] else KIND_BY_PLACEHOLDER.get(metavar)
    if kind is None:
        return None
    function = f"_eventsched_names_of_{kind}"
    return {"bash": function, "zsh": function, "fish": f"(_eventsched_names {kind})"}
