"""The templates of reports, which lie in the folder `forms`."""

from __future__ import annotations

import jinja2


def templates(*, autoescape: bool) -> jinja2.Environment:
    """Loads templates by their file's name; with `autoescape`, values are text and never markup."""
    return jinja2.Environment(
        loader=jinja2.PackageLoader("shrinkrepro.report", "forms"),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=autoescape,
        lstrip_blocks=autoescape,
        autoescape=autoescape,
    )
