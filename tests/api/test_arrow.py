"""The verdicts of a decision as Arrow: the same as the JSON pages."""

import io

import pyarrow as pa
import pytest

from eventsched.api.application import ROOT
from eventsched.api.arrow import ARROW_TYPE
from tests.api.asking import Client
from tests.postgres.histories import ODD, TIGHT


@pytest.mark.parametrize("stream", [ODD, TIGHT])
def test_the_same_as_json(client: Client, stream: str) -> None:
    seen = 0
    for decision in client.get(f"/decisions?stream={stream}&limit=20")["decisions"]:
        path = f"/decisions/{decision['position']}/verdicts?stream={stream}"
        answered = client.ask(ROOT + path, accept=ARROW_TYPE)
        assert answered.status == 200
        assert answered.headers["content-type"] == ARROW_TYPE
        table = pa.ipc.open_stream(io.BytesIO(answered.body)).read_all()
        page = client.get(f"{path}&limit=1000")
        assert table.schema.metadata[b"position"] == str(decision["position"]).encode()
        assert table.num_rows == page["nodes"]
        for row, verdict in zip(table.to_pylist(), page["verdicts"], strict=True):
            for name in ("node", "status", "plugin", "reason", "total", "rank"):
                assert row[name] == verdict[name]
            for scores in verdict["scores"]:
                for name in ("raw", "normalized", "weighted"):
                    assert row[f"{name}.{scores['plugin']}"] == scores[name]
                    seen += 1
            if verdict["total"] is None:
                assert all(row[name] is None for name in row if name.startswith("raw."))
        again = client.ask(
            ROOT + path, accept=ARROW_TYPE, if_none_match=answered.headers["etag"]
        )  # fmt: skip
        assert again.status == 304
    assert seen


def test_it_is_given_only_if_asked_for(client: Client) -> None:
    [decision] = client.get(f"/decisions?stream={TIGHT}&limit=1")["decisions"]
    path = f"{ROOT}/decisions/{decision['position']}/verdicts?stream={TIGHT}"
    for accept in ("*/*", "application/json", "text/html, */*;q=0.1", f"{ARROW_TYPE};q=0"):
        assert client.ask(path, accept=accept).headers["content-type"] == "application/json"
