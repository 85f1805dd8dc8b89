"""The web application: `/tag`, `/health`, `/openapi.json`, and the page."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.staticfiles import StaticFiles

from gspen_ner import __version__
from gspen_ner.corpora.plan import LONGEST_DOCUMENT
from gspen_ner.corpora.rows import RowSentence, pieces_of
from gspen_ner.ner.plain_text import split_text
from gspen_ner.ner.predictions import SentenceTagger
from gspen_ner.serving.batching import Batcher, BusyError
from gspen_ner.serving.limits import Limits
from gspen_ner.serving.messages import MOST_CHARACTERS, Health, Problem, TagRequest, TagResponse, answer

MOST_BYTES = 12 * MOST_CHARACTERS + 1024  # JSON can write a character as two escapes of six bytes
PAGE = Path(__file__).parent / "page"
PROBLEMS: dict[int | str, dict[str, Any]] = {
    400: {"model": Problem, "description": "The body could not be read as JSON."},
    408: {"model": Problem, "description": "The request took too long to arrive."},
    413: {"model": Problem, "description": "The request is too large."},
    503: {"model": Problem, "description": "Too many requests are waiting, or this one waited too long."},
}


def make_app(
    tagger: SentenceTagger, name: str, *, seconds: float = 30.0, hosts: tuple[str, ...] = ("*",)
) -> FastAPI:
    """Return the application that serves a tagger.

    Args:
        tagger: the tagger; a single thread uses it.
        name: name of the model.
        seconds: time limit, in seconds, to receive a request and to answer it; default 30.
        hosts: allowed values of the Host header; default all. Others are refused, against DNS rebinding.
    """
    batcher = Batcher(tagger)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await asyncio.to_thread(batcher.start)
        yield
        await asyncio.to_thread(batcher.stop)

    app = FastAPI(
        title="gspen-ner",
        version=__version__,
        description="Named entities with confidences.",
        lifespan=lifespan,
        docs_url=None,  # FastAPI's own pages load scripts from other sites
        redoc_url=None,
    )
    app.add_middleware(Limits, most_bytes=MOST_BYTES, seconds=seconds)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(hosts))
    app.add_exception_handler(RequestValidationError, _invalid)

    @app.get("/health", summary="Describe the served model")
    async def health() -> Health:
        return Health(model=name, system=tagger.system, types=list(tagger.labels.types))

    @app.post("/tag", summary="Tag the entities of a text", responses=PROBLEMS)
    async def tag(request: TagRequest) -> TagResponse:
        located = split_text(request.text)
        documents, _ = pieces_of(
            [s.document for s in located], [len(s.tokens) for s in located], LONGEST_DOCUMENT
        )
        try:
            async with asyncio.timeout(seconds):
                predictions = await batcher.tag([s.tokens for s in located], documents, request.k_best)
        except BusyError:
            raise HTTPException(503, "too many requests are waiting", {"Retry-After": "1"}) from None
        except TimeoutError:
            raise HTTPException(503, f"no answer within {seconds:g} s", {"Retry-After": "1"}) from None
        sentences = [
            answer(request.text, RowSentence(0, *sentence), prediction, request.k_best)
            for sentence, prediction in zip(located, predictions, strict=True)
        ]
        return TagResponse(sentences=sentences)

    @app.get("/", include_in_schema=False)
    async def page() -> FileResponse:
        return FileResponse(PAGE / "index.html")

    app.mount("/page", StaticFiles(directory=PAGE))
    return app


async def _invalid(_: Request, error: Exception) -> JSONResponse:
    """Return what is invalid and where, without the input, which may be large or impossible in JSON."""
    assert isinstance(error, RequestValidationError)
    problems = [
        {"type": e["type"], "loc": [_printable(part) for part in e["loc"]], "msg": _printable(e["msg"])}
        for e in error.errors()
    ]
    return JSONResponse({"detail": problems}, 422)


def _printable(part: str | int) -> str | int:
    return part if isinstance(part, int) else part.encode("utf-8", "replace").decode()[:200]
