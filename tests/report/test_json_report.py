from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from json_schema import SCHEMA, problems
from jsonschema import Draft202012Validator

from shrinkrepro.errors import Exit
from shrinkrepro.report.json import explanation_document, problem_document, to_document
from shrinkrepro.results import Explanation, Result

PAGE = Path(__file__).parents[2] / "docs" / "json.md"
PLACES = ("culprit", "saved", "needed")


def documented() -> list[set[str]]:
    """The names in each of the page's tables."""
    tables: list[set[str]] = []
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("| `"):
            tables[-1].add(line.split("`")[1])
        elif line.startswith("| ---"):
            tables.append(set())
    return tables


def names(document: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for name, value in document.items():
        yield prefix + name
        if isinstance(value, dict) and name not in PLACES:
            yield from names(value, f"{prefix}{name}.")


def test_the_page_documents_the_fields_of_a_document_and_no_others(result: Result) -> None:
    fields = {*names(to_document(result)), *names(problem_document(Exit.EMPTY, "empty"))}
    assert documented()[0] == fields


def test_the_page_documents_the_fields_of_a_place_and_no_others(result: Result) -> None:
    document = to_document(result)
    fields = {*names(document["culprit"]), *names(document["other_mutations"][0])}
    assert documented()[1] == fields


def test_the_page_documents_the_fields_of_rises_and_of_steps_and_no_others(result: Result) -> None:
    document = to_document(result)
    assert documented()[2] == {*names(document["rises"][0])}
    assert documented()[3] == {*names(document["steps"][0])}


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(SCHEMA)


def test_the_schema_holds_for_a_reduction(result: Result) -> None:
    assert problems(to_document(result)) == []


def test_the_schema_holds_for_a_reduction_that_found_little(result: Result) -> None:
    nothing = replace(result.explanation.diagnosis, saved=None, culprit=None, needed=None, node=None, attribute=None)
    poor = replace(result, explanation=replace(result.explanation, diagnosis=nothing), twin=None, mending=None)
    assert problems(to_document(poor)) == []
    assert problems(to_document(replace(poor, reduced=None))) == []


def test_the_schema_holds_for_an_explanation(explanation: Explanation) -> None:
    assert problems(explanation_document(explanation)) == []


@pytest.mark.parametrize("status", [status for status in Exit if status is not Exit.DONE])
def test_the_schema_holds_for_every_problem(status: Exit) -> None:
    assert problems(problem_document(status, "it ran")) == []


@pytest.mark.parametrize("name", ["schema", "status", "failure", "reduced", "versions"])
def test_the_schema_misses_what_is_left_out(result: Result, name: str) -> None:
    document = to_document(result)
    del document[name]
    assert problems(document) != []


def test_the_schema_refuses_a_line_that_is_no_line(result: Result) -> None:
    document = to_document(result)
    document["culprit"]["line"] = 0
    assert problems(document) != []


def test_culprit_saved_and_needed_have_the_same_fields(result: Result) -> None:
    document = to_document(result)
    assert document["culprit"].keys() == document["saved"].keys() == document["needed"].keys()


def test_a_document_survives_json(result: Result) -> None:
    document = to_document(result)
    assert json.loads(json.dumps(document)) == {**document, "failure": {**document["failure"], "shape": [1]}}


def test_a_verified_reduction_says_so(result: Result) -> None:
    assert to_document(result)["status"] == "verified"


def test_an_interrupted_reduction_says_so(result: Result) -> None:
    assert to_document(replace(result, stopped="interrupted"))["status"] == "interrupted"


def test_a_reduction_that_nothing_verifies_has_no_program_and_no_twin(result: Result) -> None:
    document = to_document(replace(result, reduced=None))
    assert (document["status"], document["reduced"], document["twin"]) == ("not verified", None, None)


def test_the_source_and_the_culprit_line_fit_each_other(result: Result) -> None:
    reduced = to_document(result)["reduced"]
    assert reduced["source"].splitlines()[reduced["culprit_line"] - 1] == "y += 1"


def test_sizes_are_those_of_the_programs(result: Result) -> None:
    document = to_document(result)
    assert (document["original"]["statements"], document["original"]["lines"]) == (7, 9)
    assert (document["reduced"]["statements"], document["reduced"]["lines"]) == (4, 4)


def test_a_culprit_without_a_clean_twin_is_visible(result: Result) -> None:
    assert to_document(replace(result, twin=None))["twin"] == {"source": None, "clean": False}


def test_notes_of_the_first_runs_and_of_the_reduction_come_together(result: Result) -> None:
    assert to_document(result)["notes"] == ["Something was slow.", "Something was undone."]


def test_an_explanation_leaves_the_reduction_null(explanation: Explanation) -> None:
    document = explanation_document(explanation)
    assert document["status"] == "explained"
    assert [document[name] for name in ("reduced", "twin", "candidates")] == [None, None, None]


def test_an_explanation_without_a_culprit_says_so(explanation: Explanation) -> None:
    unknown = replace(explanation, diagnosis=replace(explanation.diagnosis, culprit=None))
    document = explanation_document(unknown)
    assert (document["status"], document["culprit"]) == ("not explained", None)


def test_a_problem_is_its_status_and_its_sentence() -> None:
    assert problem_document(Exit.NOT_REPRODUCED, "it ran") == {
        "schema": 1,
        "status": "not reproduced",
        "error": "it ran",
    }
