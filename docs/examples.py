"""Docstrings say `Example:`; the section that is drawn as code is called `Examples:`."""

import re
from typing import Any

import griffe


class ExampleSections(griffe.Extension):
    """Renames the section while the package is read."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Called for every object with its members."""
        if obj.docstring is not None:
            obj.docstring.value = re.sub(r"^Example:", "Examples:", obj.docstring.value, flags=re.MULTILINE)
