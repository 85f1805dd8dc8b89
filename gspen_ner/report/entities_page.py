"""Predicted entities as one self-contained HTML page, without scripts or network; all text is escaped."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from gspen_ner.decode import ScoredSpan
from gspen_ner.labels import Span
from gspen_ner.ner.predictions import Prediction

_HUES = (210, 28, 130, 290, 350, 60, 170, 250)  # colours of the types, in the order of first occurrence

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title><style>
:root {{ color-scheme: light dark; }}
body {{ font: 1rem/1.9 system-ui, sans-serif; max-width: 52rem; margin: 2rem auto; padding: 0 1rem; }}
h1 {{ font-size: 1.3rem; }}
p {{ margin: .2rem 0; }}
.document {{ border-top: 1px solid #8884; padding: .6rem 0; }}
mark {{ color: inherit; border-radius: .3rem; padding: .1rem .3rem; border-bottom: 2px solid; }}
mark small {{ font-size: .68rem; opacity: .8; margin-left: .3rem; }}
.changed {{ outline: 2px dashed #c60; outline-offset: 1px; }}
{styles}
</style></head><body><h1>{title}</h1>
<p>{legend}</p>
{body}
</body></html>
"""


def entities_page(
    predictions: Sequence[Prediction], documents: Sequence[int], title: str = "Named entities"
) -> str:
    """Return the page: fainter backgrounds mean lower probabilities, outlines a change by the global term.

    Args:
        predictions: prediction for each sentence.
        documents: document number of each sentence.
        title: title of the page; default "Named entities".
    """
    types = list(dict.fromkeys(entity.span.type for row in predictions for entity in row.entities))
    styles = "\n".join(
        f".type-{number} {{ border-color: hsl({hue} 70% 45%); background: hsl({hue} 70% 55% / var(--p)); }}"
        for number, hue in ((number, _HUES[number % len(_HUES)]) for number in range(len(types)))
    )
    legend = " ".join(
        f'<mark class="type-{number}" style="--p:.35">{escape(name)}</mark>'
        for number, name in enumerate(types)
    )
    legend += ' <mark class="changed">changed by the global term</mark>'
    parts: list[str] = []
    for row, prediction in enumerate(predictions):
        if row == 0 or documents[row] != documents[row - 1]:
            parts.append(("</div>" if parts else "") + '<div class="document">')
        base = {entity.span for entity in prediction.base_entities}
        parts.append(f"<p>{_sentence(prediction.tokens, prediction.entities, types, base)}</p>")
    body = "\n".join(parts) + ("</div>" if parts else "<p>No sentences.</p>")
    return _PAGE.format(title=escape(title), styles=styles, legend=legend, body=body)


def _sentence(
    tokens: Sequence[str], entities: Sequence[ScoredSpan], types: Sequence[str], base: set[Span]
) -> str:
    """Return a sentence with its entities marked; `base` contains those of the base model."""
    starts = {entity.span.start: entity for entity in entities}
    parts: list[str] = []
    position = 0
    while position < len(tokens):
        entity = starts.get(position)
        if entity is None:
            removed = next((span.type for span in base if span.start <= position < span.end), None)
            token = escape(tokens[position])
            if removed is not None:
                title = f"{escape(removed)} without the global term"
                token = f'<mark class="changed" title="{title}">{token}</mark>'
            parts.append(token)
            position += 1
            continue
        span, probability = entity
        changed = "" if span in base else " changed"
        text = escape(" ".join(tokens[span.start : span.end]))
        opacity = 0.1 + 0.35 * probability
        parts.append(
            f'<mark class="type-{types.index(span.type)}{changed}" style="--p:{opacity:.2f}" '
            f'title="{escape(span.type)}, probability {probability:.4f}">{text}'
            f"<small>{escape(span.type)} {probability:.2f}</small></mark>"
        )
        position = span.end
    return " ".join(parts)
