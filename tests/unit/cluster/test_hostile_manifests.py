"""Small manifests that once exhausted the stack or the memory, or ended in a traceback."""

from pathlib import Path

import pytest

from eventsched.cluster.sources import manifests
from eventsched.cluster.translate.fields import excerpt
from eventsched.domain.errors import InputError

POD = "apiVersion: {version}\nkind: Pod\nmetadata: {{name: a, {more}}}\nspec: {{{spec}}}\n"
BILLION = "[&a0 [x,x,x,x,x,x,x,x,x,x]" + "".join(
    f",&a{level} [{','.join([f'*a{level - 1}'] * 10)}]" for level in range(1, 9)
)
BILLION += "]"


def pod(more: str = "labels: {}", spec: str = "containers: []", version: str = "v1") -> str:
    return POD.format(more=more, spec=spec, version=version)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: " + "[" * 30_000, "nested too deeply"),
        ("- " * 30_000, "nested too deeply"),
        ("? " * 30_000 + "x", "nested too deeply"),
        (pod("namespace: !!bool x"), "holds a value that cannot be read"),
        (pod('namespace: !!int ""'), "holds a value that cannot be read"),
        (pod(f"generation: 0x{'f' * 5_000}"), "an integer of more than 1000 digits"),
        (pod(f"namespace: {BILLION}"), "is not a string"),
        (pod(f"labels: {BILLION}"), "is not a mapping"),
        (pod(spec=f"priorityClassName: {BILLION}"), "priorityClassName is not a string"),
        (
            "apiVersion: eventsched.io/v1alpha1\nkind: Samples\nmetadata: {name: s}\n"
            f"values: {{n1: {'9' * 400}}}\n",
            "is not a number",
        ),
    ],
    ids=[
        "flow", "block", "keys", "bool", "int", "hex", "namespace", "labels", "priority", "samples",
    ],
)  # fmt: skip
def test_it_is_refused(text: str, problem: str, tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(text)
    with pytest.raises(InputError) as caught:
        manifests.read(file)
    assert str(file) in caught.value.where
    assert problem in str(caught.value).replace(":", "")
    assert len(str(caught.value)) < 1_000


def test_another_version_may_be_anything(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(pod(version=BILLION))
    assert "Pod.v?" in manifests.read(file).warnings[0]


def test_many_brackets_are_no_fault(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(pod(f"annotations: {{a: '{'[' * 20_000}'}}"))
    assert len(manifests.read(file).pods) == 1


def test_the_beginning_of_a_value() -> None:
    assert excerpt("x") == "'x'"
    assert excerpt([1] * 10**6) == "[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, ..."
    assert excerpt("x" * 50) == "'" + "x" * 36 + "..."
