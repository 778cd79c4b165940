"""A device on paho: reports over MQTT and prints, as one JSON object, what it was told.

Usage: paho_client.py PORT VERSION, with a JSON list of [topic, payload] on stdin. VERSION is 3 (MQTT 3.1.1) or 5.
"""

import json
import sys
import threading

import paho.mqtt.client as mqtt

PATIENCE_S = 30

port, version = int(sys.argv[1]), int(sys.argv[2])
messages = json.load(sys.stdin)
protocol = mqtt.MQTTv5 if version == 5 else mqtt.MQTTv311

# paho 2 asks which form of callbacks is meant, paho 1 does not know the question.
arguments = [mqtt.CallbackAPIVersion.VERSION1] if hasattr(mqtt, "CallbackAPIVersion") else []
client = mqtt.Client(*arguments, client_id="paho", protocol=protocol)
told = {"session_present": None, "granted": None, "acknowledged": [], "disconnected": None}
connected, subscribed, acknowledged, disconnected = (threading.Event() for _ in range(4))


def on_connect(_client, _userdata, flags, reason, _properties=None):
    told["connected"] = str(reason)
    told["session_present"] = flags["session present"]
    connected.set()


def on_subscribe(_client, _userdata, _mid, granted, _properties=None):
    told["granted"] = [int(str(code.value if hasattr(code, "value") else code)) for code in granted]
    subscribed.set()


def on_publish(_client, _userdata, mid):
    told["acknowledged"].append(mid)
    if len(told["acknowledged"]) == len(messages):
        acknowledged.set()


def on_disconnect(_client, _userdata, reason, _properties=None):
    told["disconnected"] = str(reason)
    disconnected.set()


client.on_connect = on_connect
client.on_subscribe = on_subscribe
client.on_publish = on_publish
client.on_disconnect = on_disconnect
client.connect("127.0.0.1", port, keepalive=10)
client.loop_start()
assert connected.wait(PATIENCE_S), "no CONNACK"
client.subscribe("dev/+/0xA/#", qos=1)
assert subscribed.wait(PATIENCE_S), "no SUBACK"
sent = [client.publish(topic, payload, qos=1).mid for topic, payload in messages]
assert acknowledged.wait(PATIENCE_S), f"only {len(told['acknowledged'])} PUBACKs for {len(messages)} reports"
client.disconnect()
assert disconnected.wait(PATIENCE_S), "no end"
client.loop_stop()
told["in_order"] = told["acknowledged"] == sent
told["acknowledged"] = len(told["acknowledged"])
json.dump(told, sys.stdout)
