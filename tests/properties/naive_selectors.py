"""Label selectors in plain Python, for the naive models: from apimachinery's
LabelSelectorAsSelector, with no code of eventsched but its data classes."""

from collections.abc import Mapping

from eventsched.domain.objects import Requirement, Selector

Labels = Mapping[str, str]


class MalformedError(Exception):
    """A selector that LabelSelectorAsSelector refuses."""


def selects(selector: Selector, labels: Labels) -> bool:
    return selector is not None and all(_holds(each, labels) for each in selector)


def _holds(each: Requirement, labels: Labels) -> bool:
    has = each.key in labels
    among = has and labels[each.key] in each.values
    return {"In": among, "NotIn": not among, "Exists": has, "DoesNotExist": not has}[each.operator]


def check(selector: Selector) -> None:
    for each in selector or ():
        due = each.operator in ("In", "NotIn")
        known = each.operator in ("In", "NotIn", "Exists", "DoesNotExist")
        if not known or bool(each.values) is not due:
            raise MalformedError
