"""Signatures of webhooks."""

from __future__ import annotations

import base64
import hashlib
import hmac
import unittest

from fieldpost.webhooks import WebhookError, verify

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
#: The example of the specification.
HEADERS = {
    "Webhook-Id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
    "Webhook-Timestamp": "1614265330",
    "Webhook-Signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
}
BODY = b'{"test": 2432232314}'
AT = 1614265330.0


class Webhooks(unittest.TestCase):
    def test_the_example_of_the_specification_is_trusted(self) -> None:
        self.assertEqual(verify(SECRET, HEADERS, BODY, now=AT), {"test": 2432232314})

    def test_one_of_several_secrets_and_of_several_signatures_is_enough(self) -> None:
        other = "whsec_" + base64.b64encode(b"another").decode()
        two = {**HEADERS, "Webhook-Signature": f"v1a,xyz v1,AAAA {HEADERS['Webhook-Signature']}"}
        self.assertEqual(verify([other, SECRET], two, BODY, now=AT), {"test": 2432232314})

    def test_what_was_changed_is_not_trusted(self) -> None:
        rows = [
            ({}, BODY + b" ", AT, "no signature fits"),
            ({"Webhook-Id": "msg_other"}, BODY, AT, "no signature fits"),
            ({"Webhook-Timestamp": "1614265331"}, BODY, AT, "no signature fits"),
            ({"Webhook-Timestamp": "soon"}, BODY, AT, "not a number"),
            ({"Webhook-Signature": "g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="}, BODY, AT, "no signature fits"),
            ({}, BODY, AT + 301, "too far"),
            ({}, BODY, AT - 301, "too far"),
        ]
        for changed, body, now, why in rows:
            with self.subTest(changed=changed, now=now), self.assertRaisesRegex(WebhookError, why):
                verify(SECRET, {**HEADERS, **changed}, body, now=now)

    def test_a_request_without_the_headers_is_not_trusted(self) -> None:
        for name in HEADERS:
            headers = {other: value for other, value in HEADERS.items() if other != name}
            with self.subTest(name=name), self.assertRaisesRegex(WebhookError, "no header"):
                verify(SECRET, headers, BODY, now=AT)

    def test_a_secret_may_be_given_without_its_prefix(self) -> None:
        signed = f"id.{int(AT)}.".encode() + BODY
        signature = base64.b64encode(hmac.new(b"key", signed, hashlib.sha256).digest()).decode()
        headers = {"webhook-id": "id", "webhook-timestamp": str(int(AT)), "webhook-signature": f"v1,{signature}"}
        self.assertEqual(verify(base64.b64encode(b"key").decode(), headers, BODY, now=AT), {"test": 2432232314})
