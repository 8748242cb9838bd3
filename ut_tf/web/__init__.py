"""Web pages and models on Starlette and uvicorn, within limits of size, time and number."""
