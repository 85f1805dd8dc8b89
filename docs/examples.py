"""A griffe extension for docstrings: renames `Example:` to `Examples:`, which mkdocstrings shows as code."""

import re
from typing import Any

import griffe


class ExampleSections(griffe.Extension):
    """Renames the section `Example:` to `Examples:` while the package is read."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Rename the section in the docstring of an object."""
        if obj.docstring is not None:
            obj.docstring.value = re.sub(r"^Example:", "Examples:", obj.docstring.value, flags=re.MULTILINE)
