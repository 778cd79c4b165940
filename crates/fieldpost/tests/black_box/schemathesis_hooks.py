"""What schemathesis has to know of our media types."""

import json

import schemathesis


@schemathesis.serializer("application/x-ndjson")
def ndjson(_context, value):
    """One JSON document a line."""
    lines = value if isinstance(value, list) else [value]
    return "\n".join(json.dumps(line) for line in lines).encode()


@schemathesis.deserializer("application/openmetrics-text")
@schemathesis.deserializer("text/plain")
@schemathesis.deserializer("text/csv")
def text(_context, response):
    """Text is what it is."""
    return response.content.decode()
