"""A publisher on pika: sends reports to a queue and prints how many the broker confirmed.

Usage: pika_publisher.py URL QUEUE, with a JSON list of [body, message_id or null] on stdin.
"""

import json
import sys

import pika

PERSISTENT = 2

url, queue = sys.argv[1:]
messages = json.load(sys.stdin)
connection = pika.BlockingConnection(pika.URLParameters(url))
channel = connection.channel()
channel.confirm_delivery()
confirmed = 0
for body, message_id in messages:
    properties = pika.BasicProperties(delivery_mode=PERSISTENT, message_id=message_id)
    # Raises unless the broker has it in a queue.
    channel.basic_publish("", queue, body.encode(), properties, mandatory=True)
    confirmed += 1
connection.close()
json.dump(confirmed, sys.stdout)
