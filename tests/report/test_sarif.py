from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic_sarif.model import StaticAnalysisResultsFormatSarifVersion210JsonSchema as OfficialSchema

from shrinkrepro.program.source import Cell
from shrinkrepro.report.sarif import sarif
from shrinkrepro.results import Explanation, Result, findings

HERE = Path("/")


def log(found: Result | Explanation) -> dict[str, Any]:
    """The log, which models generated from the official schema, closed against unknown names, have accepted."""
    document = sarif(findings(found), HERE)
    OfficialSchema.model_validate_json(json.dumps(document))
    return document


def only_result(found: Result | Explanation) -> dict[str, Any]:
    (result,) = log(found)["runs"][0]["results"]
    return dict(result)


def region(location: dict[str, Any]) -> dict[str, Any]:
    return dict(location["physicalLocation"]["region"])


def test_the_culprit_is_the_result_and_the_other_places_are_related(result: Result) -> None:
    found = only_result(result)
    assert [region(place)["startLine"] for place in found["locations"]] == [5]
    assert [region(place)["startLine"] for place in found["relatedLocations"]] == [4, 9]


def test_the_flow_goes_from_saved_over_changed_to_needed(result: Result) -> None:
    flow = only_result(result)["codeFlows"][0]["threadFlows"][0]["locations"]
    assert [region(step["location"])["startLine"] for step in flow] == [4, 5, 9]


def test_a_region_covers_the_statement_counted_from_one(result: Result) -> None:
    covered = region(only_result(result)["locations"][0])
    assert covered == {"startLine": 5, "startColumn": 5, "endLine": 5, "endColumn": 11, "snippet": {"text": "y += 1"}}


def test_a_proven_repair_is_the_fix(result: Result) -> None:
    (fix,) = only_result(result)["fixes"]
    (change,) = fix["artifactChanges"]
    (replacement,) = change["replacements"]
    assert replacement["deletedRegion"] == {"startLine": 5, "startColumn": 1, "endLine": 6, "endColumn": 1}
    assert replacement["insertedContent"] == {"text": "    y = y + 1\n"}


def test_a_repair_that_is_not_proven_is_no_fix(result: Result) -> None:
    assert result.mending is not None
    doubtful = replace(result.mending, chosen=result.mending.attempts[0])
    assert only_result(replace(result, mending=doubtful))["fixes"] == []


def test_notes_are_notifications(result: Result) -> None:
    (invocation,) = log(result)["runs"][0]["invocations"]
    said = [notification["message"]["text"] for notification in invocation["toolExecutionNotifications"]]
    assert said == ["Something was slow.", "Something was undone.", "Something was not tried."]


def test_without_a_culprit_the_result_has_no_location(explanation: Explanation) -> None:
    unknown = replace(explanation, diagnosis=replace(explanation.diagnosis, culprit=None))
    assert only_result(unknown)["locations"] == []


def test_in_a_notebook_the_cell_is_told_in_words(explanation: Explanation) -> None:
    culprit = explanation.diagnosis.culprit
    assert culprit is not None
    within = replace(explanation.diagnosis, culprit=replace(culprit, cell=Cell(2, 4)))
    (location,) = only_result(replace(explanation, diagnosis=within))["locations"]
    assert "region" not in location["physicalLocation"]
    assert location["message"]["text"].startswith("in cell 2, line 2: changed here")


def test_a_path_with_a_space_is_a_uri(explanation: Explanation) -> None:
    culprit = explanation.diagnosis.culprit
    assert culprit is not None
    odd = replace(explanation.diagnosis, culprit=replace(culprit, file="my model.py"))
    (location,) = only_result(replace(explanation, diagnosis=odd))["locations"]
    assert location["physicalLocation"]["artifactLocation"]["uri"] == "my%20model.py"


def test_the_official_schema_is_closed(result: Result) -> None:
    document = log(result)
    document["runs"][0]["results"][0]["culprit"] = 5
    with pytest.raises(ValueError, match="Extra inputs"):
        OfficialSchema.model_validate_json(json.dumps(document))
