"""Limits on the size and the arrival time of requests, and the security headers of answers."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY = b"default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'"
HEADERS = {
    b"content-security-policy": POLICY,
    b"referrer-policy": b"no-referrer",
    b"x-content-type-options": b"nosniff",
}


class Limits:
    """Middleware that reads the whole body of a request first, and refuses one that is too large or too slow.

    Args:
        app: the application.
        most_bytes: maximum size of a body, in bytes.
        seconds: time limit to receive a body, in seconds.
    """

    def __init__(self, app: ASGIApp, most_bytes: int, seconds: float) -> None:
        self.app, self.most_bytes, self.seconds = app, most_bytes, seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *HEADERS.items()]
            await send(message)

        try:
            async with asyncio.timeout(self.seconds):
                body = await self._body(scope, receive)
        except TimeoutError:
            status, detail = 408, f"the request did not arrive within {self.seconds:g} s"
        except _TooLargeError:
            status, detail = 413, f"the request is too large: {self.most_bytes} bytes at most"
        else:
            if body is not None:  # None: the client disconnected
                await self.app(scope, _replay(body, receive), send_with_headers)
            return
        # The connection is closed, so that the rest of the body is not awaited.
        refusal = JSONResponse({"detail": detail}, status, {"connection": "close"})
        await refusal(scope, receive, send_with_headers)

    async def _body(self, scope: Scope, receive: Receive) -> bytes | None:
        announced = dict(scope["headers"]).get(b"content-length", b"0")
        if announced.isdigit() and int(announced) > self.most_bytes:
            raise _TooLargeError
        body, more = b"", True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if len(body) > self.most_bytes:
                raise _TooLargeError
        return body


class _TooLargeError(Exception):
    pass


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return a function that first returns the body that was read, then what the client sends."""
    first: list[dict[str, Any]] = [{"type": "http.request", "body": body, "more_body": False}]

    async def next_message() -> Message:
        return first.pop() if first else await receive()

    return next_message
