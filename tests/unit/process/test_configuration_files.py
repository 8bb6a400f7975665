"""When a configuration file counts as changed, however it is replaced."""

import os
from pathlib import Path

import pytest

from eventsched.domain.errors import InputError
from eventsched.process.configuration_files import ConfigurationFiles


def changes(files: ConfigurationFiles, times: int = 3) -> list[bool]:
    """The answers to some looks, one after the other."""
    return [files.changed() for _ in range(times)]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    made = tmp_path / "eventsched.yaml"
    made.write_text("one")
    return made


def test_a_file_written_in_place_has_changed_at_the_second_look(config: Path) -> None:
    files = ConfigurationFiles(config)
    assert changes(files) == [False, False, False]
    config.write_text("two")
    assert changes(files) == [False, True, True]
    files.handled = files.content()
    assert changes(files) == [False, False, False]


def test_a_file_that_is_still_being_written_has_not_changed_yet(config: Path) -> None:
    files = ConfigurationFiles(config)
    for text in ("t", "tw", "two"):
        config.write_text(text)
        assert not files.changed()
    assert files.changed()


def test_the_link_of_a_mounted_configmap_is_followed(tmp_path: Path) -> None:
    """``..data`` points to a folder and is replaced; the file's own link stays."""
    for version in ("1", "2"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "eventsched.yaml").write_text(version)
    (tmp_path / "..data").symlink_to("1")
    (tmp_path / "eventsched.yaml").symlink_to("..data/eventsched.yaml")
    files = ConfigurationFiles(tmp_path / "eventsched.yaml")
    (tmp_path / "..new").symlink_to("2")
    os.replace(tmp_path / "..new", tmp_path / "..data")
    assert changes(files) == [False, True, True]


def test_a_change_of_the_times_alone_is_none(config: Path) -> None:
    files = ConfigurationFiles(config)
    os.utime(config, (1, 1))
    assert changes(files) == [False, False, False]


def test_a_file_that_is_gone_has_changed(config: Path) -> None:
    files = ConfigurationFiles(config)
    config.unlink()
    assert changes(files) == [False, True, True]


def test_a_plugin_file_must_stay_as_it_was_loaded(config: Path, tmp_path: Path) -> None:
    plugin = tmp_path / "taste.py"
    plugin.write_text("one = 1")
    files = ConfigurationFiles(config, [plugin])
    files.require_same_plugins(files.content())
    config.write_text("two")
    files.require_same_plugins(files.content())
    plugin.write_text("two = 2")
    assert changes(files) == [False, True, True]
    with pytest.raises(InputError, match=r"taste\.py: has changed, .* restart the process"):
        files.require_same_plugins(files.content())
