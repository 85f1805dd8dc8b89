"""What all pictures of experiments have: one colour a system, and their numbers as JSON beside them."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gspen_ner.files import write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's, which people tell apart whatever colours they see.
SYSTEM_COLOURS = {
    "Unary": "#777777",
    "Struct": "#0072B2",
    "Struct without entropy": "#56B4E9",
    "SPEN": "#E69F00",
    "NLStruct": "#009E73",
    "GSPEN": "#D55E00",
}


def write_picture(file: Path, numbers: Any, figure: Figure) -> None:
    """Write FILE.png and FILE.json, each at once.

    Args:
        file: without its ending.
        numbers: what the picture shows, a dataclass.
        figure: the picture.
    """
    write_whole(file.with_suffix(".json"), json.dumps(asdict(numbers), indent=2, ensure_ascii=False) + "\n")
    new = file.with_suffix(".png.new")
    try:
        figure.savefig(new, format="png", dpi=150)
        new.replace(file.with_suffix(".png"))
    finally:
        new.unlink(missing_ok=True)
