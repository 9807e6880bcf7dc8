"""The few GraphQL calls the command line needs, over plain HTTP to a webserver on this machine."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

LOCATION = "gc25d"
"""The name under which the servers load the project's code location."""
FINISHED = frozenset({"SUCCESS", "FAILURE", "CANCELED"})
UNFINISHED = ["QUEUED", "NOT_STARTED", "MANAGED", "STARTING", "STARTED", "CANCELING"]
PARTITION_TAG = "dagster/partition"
BUILD_TAG = "gc25d/build"
_CHUNK = 16  # runs launched or cancelled in one request


class GraphQLError(RuntimeError):
    """The webserver did not answer, or answered with an error."""


@dataclass(frozen=True)
class RunState:
    """One Dagster run as the command line follows it."""

    run_id: str
    status: str
    partition: str | None

    @property
    def finished(self) -> bool:
        return self.status in FINISHED

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> RunState:
        tags = {t["key"]: t["value"] for t in row["tags"]}
        return cls(row["runId"], row["status"], tags.get(PARTITION_TAG))


class Client:
    """GraphQL at `<url>/graphql`. Loopback never goes through a proxy."""

    def __init__(self, url: str) -> None:
        self._endpoint = f"{url}/graphql"
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def query(self, text: str, *, timeout_s: float = 60.0, **variables: Any) -> dict[str, Any]:
        """The `data` of the answer; GraphQLError for anything else."""
        body = json.dumps({"query": text, "variables": variables}).encode()
        request = urllib.request.Request(self._endpoint, body, {"Content-Type": "application/json"})
        try:
            with self._opener.open(request, timeout=timeout_s) as reply:
                answer = json.load(reply)
        except urllib.error.HTTPError as error:
            raise GraphQLError(f"{self._endpoint}: {error}: {error.read(2000).decode(errors='replace')}") from error
        except (OSError, ValueError) as error:
            raise GraphQLError(f"{self._endpoint}: {error}") from error
        if answer.get("errors"):
            raise GraphQLError("; ".join(e["message"] for e in answer["errors"]))
        return dict(answer["data"])

    def one(self, text: str, success: str, *, timeout_s: float = 60.0, **variables: Any) -> dict[str, Any]:
        """The single field of the answer, which must be of type `success`."""
        (value,) = self.query(text, timeout_s=timeout_s, **variables).values()
        if value["__typename"] != success:
            raise GraphQLError(f"{value['__typename']}: {value.get('message') or value}")
        return dict(value)

    def location_error(self) -> str | None:
        """Why the code location did not load; None if it did."""
        entries = self.one(_LOCATIONS, "Workspace")["locationEntries"]
        for entry in entries:
            found = entry["locationOrLoadError"]
            if found is None:
                return f"{entry['name']} is still loading"
            if found["__typename"] == "PythonError":
                return str(found["message"])
        return None if entries else "no code location"

    def launch(
        self, job: str, partitions: Sequence[str | None], *, tags: Mapping[str, str], config: Mapping[str, Any]
    ) -> list[RunState]:
        """Puts one run of `job` into the queue for each partition (None: an unpartitioned job)."""
        selector = {
            "repositoryLocationName": LOCATION,
            "repositoryName": "__repository__",
            "pipelineName": job,
        }
        launched = []
        for first in range(0, len(partitions), _CHUNK):
            params = []
            for partition in partitions[first : first + _CHUNK]:
                named = {**tags, **({PARTITION_TAG: partition} if partition is not None else {})}
                rows = [{"key": k, "value": v} for k, v in named.items()]
                metadata = {"tags": rows}
                params.append({"selector": selector, "runConfigData": config, "executionMetadata": metadata})
            results = self.one(_LAUNCH, "LaunchMultipleRunsResult", timeout_s=300, params=params)
            for result in results["launchMultipleRunsResult"]:
                if result["__typename"] != "LaunchRunSuccess":
                    raise GraphQLError(f"{job}: {result['__typename']}: {result.get('message') or result}")
                launched.append(RunState.from_json(result["run"]))
        return launched

    def runs(
        self,
        *,
        ids: Sequence[str] | None = None,
        job: str | None = None,
        statuses: Sequence[str] | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> list[RunState]:
        """Runs that match all that is given."""
        chosen: dict[str, Any] = {}
        if ids is not None:
            chosen["runIds"] = list(ids)
        if job is not None:
            chosen["pipelineName"] = job
        if statuses is not None:
            chosen["statuses"] = list(statuses)
        if tags:
            chosen["tags"] = [{"key": k, "value": v} for k, v in tags.items()]
        return [RunState.from_json(row) for row in self.one(_RUNS, "Runs", filter=chosen)["results"]]

    def terminate(self, ids: Iterable[str], *, at_once: bool = False) -> None:
        """Asks for an end of these runs; `at_once` marks them as cancelled whatever their processes do."""
        policy = "MARK_AS_CANCELED_IMMEDIATELY" if at_once else "SAFE_TERMINATE"
        names = list(ids)
        for first in range(0, len(names), _CHUNK):
            some = names[first : first + _CHUNK]
            self.one(_TERMINATE, "TerminateRunsResult", ids=some, policy=policy)

    def cancel_backfills(self) -> int:
        """Asks for an end of every backfill that is under way; how many."""
        found = self.one(_BACKFILLS, "PartitionBackfills")["results"]
        for backfill in found:
            self.one(_CANCEL_BACKFILL, "CancelBackfillSuccess", id=backfill["id"])
        return len(found)

    def why_failed(self, run_id: str) -> str:
        """The first failed step and its error, in one line."""
        events = self.one(_EVENTS, "EventConnection", id=run_id)["events"]
        last = ""
        for event in events:
            error = event.get("error")
            if event["__typename"] == "ExecutionStepFailureEvent" and error:
                while error.get("cause"):
                    error = error["cause"]
                return f"{event['stepKey']}: {' '.join(error['message'].split())}"
            if event["__typename"] == "RunFailureEvent":
                last = " ".join(event["message"].split())
        return last or "no event says why"


_LOCATIONS = """query { workspaceOrError { __typename
  ... on Workspace { locationEntries { name locationOrLoadError { __typename ... on PythonError { message } } } }
  ... on PythonError { message } } }"""
_LAUNCH = """mutation($params: [ExecutionParams!]!) { launchMultipleRuns(executionParamsList: $params) { __typename
  ... on PythonError { message }
  ... on LaunchMultipleRunsResult { launchMultipleRunsResult { __typename
    ... on LaunchRunSuccess { run { runId status tags { key value } } }
    ... on PythonError { message } ... on Error { message }
    ... on RunConfigValidationInvalid { errors { message } } } } } }"""
_RUNS = """query($filter: RunsFilter!) { runsOrError(filter: $filter) { __typename
  ... on Runs { results { runId status tags { key value } } } ... on Error { message } } }"""
_TERMINATE = """mutation($ids: [String!]!, $policy: TerminateRunPolicy!) {
  terminateRuns(runIds: $ids, terminatePolicy: $policy) { __typename ... on PythonError { message } } }"""
_BACKFILLS = """query { partitionBackfillsOrError(status: REQUESTED) { __typename
  ... on PartitionBackfills { results { id } } ... on PythonError { message } } }"""
_CANCEL_BACKFILL = """mutation($id: String!) { cancelPartitionBackfill(backfillId: $id) { __typename
  ... on Error { message } } }"""
_EVENTS = """query($id: ID!) { logsForRun(runId: $id) { __typename
  ... on Error { message }
  ... on EventConnection { events { __typename
    ... on MessageEvent { message stepKey }
    ... on ExecutionStepFailureEvent { error { message cause { message cause { message } } } } } } } }"""
