"""An address that is read from its file for each new connection."""

from pathlib import Path

import pytest

from eventsched.domain.errors import UnavailableError
from eventsched.eventlog.address_file import AddressFile, for_login, last_read
from eventsched.eventlog.log_errors import LoginRefusedError

OLD, NEW = "postgresql://me:old@db/log", "postgresql://me:new@db/log"
REFUSED = LoginRefusedError("db", "password authentication failed", "correct the address")


def test_the_newest_address_is_used(tmp_path: Path) -> None:
    file = tmp_path / "url"
    address = AddressFile(file, OLD)
    file.write_text(f"{NEW}\n")
    assert last_read(address) == OLD
    with for_login(address) as text:
        assert text == NEW
    assert last_read(address) == NEW


@pytest.mark.parametrize("content", [None, b"", b" \n", b"mysql://db", b"\xff"])
def test_a_file_that_cannot_be_used_changes_nothing(tmp_path: Path, content: bytes | None) -> None:
    """It may be half written."""
    file = tmp_path / "url"
    if content is not None:
        file.write_bytes(content)
    with for_login(AddressFile(file, OLD)) as text:
        assert text == OLD


def refused(address: AddressFile | str) -> UnavailableError:
    """What a refused login raises."""
    with pytest.raises(UnavailableError) as caught, for_login(address):
        raise REFUSED
    return caught.value


def test_a_refused_login_is_waited_out_after_one_that_was_accepted(tmp_path: Path) -> None:
    """Before that, the address is wrong from the start."""
    address = AddressFile(tmp_path / "url", OLD)
    assert refused(address) is REFUSED
    with for_login(address):
        pass
    later = refused(address)
    assert not isinstance(later, LoginRefusedError)
    assert "read again for each connection" in later.remedy
    assert refused(OLD) is REFUSED
