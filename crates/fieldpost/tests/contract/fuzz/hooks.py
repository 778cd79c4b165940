"""What schemathesis has to be told of bodies that are not JSON: NDJSON goes out as text, and OpenMetrics comes in as text."""

import json

import schemathesis


@schemathesis.serializer("application/x-ndjson")
def lines(context, value):
    text = value if isinstance(value, str) else json.dumps(value)
    return text.encode("utf-8", "replace")


@schemathesis.deserializer("application/openmetrics-text")
def figures(context, response):
    return response.content.decode()
