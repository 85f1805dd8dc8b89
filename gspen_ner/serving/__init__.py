"""Serving a model over HTTP: a page to try it, and a JSON endpoint.

    request -> limits -> app -> batching (one queue, one inference thread) -> messages

FastAPI and uvicorn rather than Gradio: few and small packages, an OpenAPI description generated from the
types, and a page of our own without scripts from other sites.
"""
