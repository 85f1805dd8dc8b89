"""A model on this machine's network: a page to try it, and a JSON endpoint.

    request -> limits -> app -> batching (one queue, one thread that infers) -> messages

FastAPI and uvicorn rather than Gradio: a few small packages, an OpenAPI description that follows from the
types, and a page that is ours, without scripts from elsewhere.
"""
