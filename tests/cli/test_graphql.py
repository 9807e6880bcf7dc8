"""The GraphQL client against a webserver made of paper: what is not the expected answer is an error that says so."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from gc25d_assets.cli.graphql import Client, GraphQLError


class Paper(HTTPServer):
    """Answers every request with `answer`, and keeps what was asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer: tuple[int, bytes] = (200, b"{}")
        self.asked: list[dict[str, Any]] = []


class _Handler(BaseHTTPRequestHandler):
    server: Paper

    def do_POST(self) -> None:
        self.server.asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        status, body = self.server.answer
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def paper() -> Iterator[Paper]:
    with Paper() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def client_of(paper: Paper) -> Client:
    return Client(f"http://127.0.0.1:{paper.server_port}")


def say(paper: Paper, data: dict[str, Any]) -> None:
    paper.answer = (200, json.dumps({"data": data}).encode())


def test_errors_of_the_schema_are_said(paper: Paper) -> None:
    paper.answer = (200, json.dumps({"errors": [{"message": "Cannot query field"}], "data": None}).encode())
    with pytest.raises(GraphQLError, match="Cannot query field"):
        client_of(paper).runs()


def test_an_answer_of_another_type_is_an_error_with_its_message(paper: Paper) -> None:
    say(paper, {"runsOrError": {"__typename": "PythonError", "message": "no such table"}})
    with pytest.raises(GraphQLError, match="PythonError: no such table"):
        client_of(paper).runs()


@pytest.mark.parametrize("answer", [(500, b"broken"), (200, b"<html>")])
def test_what_is_no_graphql_is_an_error(paper: Paper, answer: tuple[int, bytes]) -> None:
    paper.answer = answer
    with pytest.raises(GraphQLError, match="/graphql"):
        client_of(paper).runs()


def test_nobody_listening_is_an_error() -> None:
    with pytest.raises(GraphQLError, match="Connection refused"):
        Client("http://127.0.0.1:9").runs()


def test_loopback_does_not_go_through_a_proxy(paper: Paper, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    say(paper, {"runsOrError": {"__typename": "Runs", "results": []}})
    assert client_of(paper).runs() == []


def test_runs_are_launched_in_portions_each_with_its_partition(paper: Paper) -> None:
    row = {"runId": "x", "status": "QUEUED", "tags": [{"key": "dagster/partition", "value": "r"}]}
    result = {"__typename": "LaunchRunSuccess", "run": row}
    say(paper, {"launchMultipleRuns": {"__typename": "LaunchMultipleRunsResult", "launchMultipleRunsResult": [result]}})
    names = [f"run{i:02d}" for i in range(20)]
    client_of(paper).launch("build_runs", names, tags={"gc25d/build": "1"}, config={})
    asked = [params for request in paper.asked for params in request["variables"]["params"]]
    tags = [{t["key"]: t["value"] for t in params["executionMetadata"]["tags"]} for params in asked]
    assert [t["dagster/partition"] for t in tags] == names
    assert {t["gc25d/build"] for t in tags} == {"1"}
    assert len(paper.asked) == 2


def test_a_refused_launch_is_an_error(paper: Paper) -> None:
    result = {"__typename": "RunConfigValidationInvalid", "errors": [{"message": "unexpected field"}]}
    say(paper, {"launchMultipleRuns": {"__typename": "LaunchMultipleRunsResult", "launchMultipleRunsResult": [result]}})
    with pytest.raises(GraphQLError, match=r"RunConfigValidationInvalid.*unexpected field"):
        client_of(paper).launch("build_runs", ["a"], tags={}, config={})


def test_why_a_run_failed_is_the_innermost_error_of_its_first_failed_step(paper: Paper) -> None:
    inner = {"message": "SystemFault: disk\nfull", "cause": None}
    events = [
        {"__typename": "LogMessageEvent", "message": "x", "stepKey": None},
        {
            "__typename": "ExecutionStepFailureEvent",
            "stepKey": "latents",
            "error": {"message": "outer", "cause": inner},
        },
        {"__typename": "RunFailureEvent", "message": "Steps failed", "stepKey": None},
    ]
    say(paper, {"logsForRun": {"__typename": "EventConnection", "events": events}})
    assert client_of(paper).why_failed("x") == "latents: SystemFault: disk full"
