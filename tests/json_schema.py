"""Documents held against the schema that ships with the package."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import resources
from typing import Any

from jsonschema import Draft202012Validator

SCHEMA: dict[str, Any] = json.loads(resources.files("shrinkrepro.report").joinpath("schema.json").read_text("utf-8"))


def problems(document: Mapping[str, Any]) -> list[str]:
    """What is wrong with a document; names that the schema does not know are wrong, too."""
    plain = json.loads(json.dumps(document))
    return [f"{error.json_path}: {error.message}" for error in Draft202012Validator(_closed(SCHEMA)).iter_errors(plain)]


def _closed(schema: Any) -> Any:
    """The schema without its leave to add names, which is for the readers of later versions."""
    if isinstance(schema, list):
        return [_closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {name: _closed(part) for name, part in schema.items()}
    return {**closed, "additionalProperties": False} if "properties" in schema else closed
