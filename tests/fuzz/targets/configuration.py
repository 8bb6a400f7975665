"""A KubeSchedulerConfiguration and eventsched's settings, as ``eventsched config`` reads them."""

import json
from contextlib import suppress

import yaml

from eventsched.domain.errors import InputError
from eventsched.process import settings
from eventsched.runtime.assembly import assemble_loaded, registry
from eventsched.scheduling.config.checking import check
from eventsched.scheduling.config.completion import completed
from tests.fuzz.choices import Choices
from tests.fuzz.documents import HOSTILE_JSON, HOSTILE_YAML, as_json, as_yaml, documents, spoiled
from tests.fuzz.targets import is_choices

SOURCE = "config.yaml"
_REGISTRY = registry()


def fuzz_one(data: bytes) -> None:
    """Every problem is an InputError with the file and a remedy. A valid configuration can be
    written out in full, and has the same meaning when it is read again."""
    if is_choices(data):
        choices = Choices(data[1:])
        _, document = choices.of(documents("configuration"))
        is_json = choices.below(2)
        changed = spoiled(document, choices, HOSTILE_JSON if is_json else HOSTILE_YAML)
        data = as_json(changed) if is_json else as_yaml(changed)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return
    problems: list[InputError] = []
    with suppress(InputError):
        settings.load(text, SOURCE, problems.append)
    checked = check(text, SOURCE, _REGISTRY)
    for problem in (*problems, *checked.problems):
        assert problem.where.startswith(SOURCE), problem
        assert problem.problem
        assert problem.remedy
        str(problem).encode(errors="backslashreplace")
    if checked.problems:
        return
    with suppress(InputError):
        assemble_loaded(checked.configuration, SOURCE, _REGISTRY, text)
    document = completed(checked.configuration, checked.profiles)
    json.dumps(document, ensure_ascii=False).encode()
    again = check(yaml.safe_dump(document, allow_unicode=True), SOURCE, _REGISTRY)
    assert not again.problems
    assert completed(again.configuration, again.profiles) == document
