"""A device on paho: connects, reports over MQTT and prints, as one JSON object, what it was told.

Usage: paho_client.py PORT VERSION, with a JSON object on stdin. VERSION is 3 (MQTT 3.1.1) or 5. The object has `messages`, a
list of [topic, payload], and may have:

qos             of the messages, 1 unless told
lasting         true: a session that outlives the connection
login           [username, password]
will            [topic, payload]
subscribe       a list of filters; dev/+/0xA/# unless told
vanish          true: end without a DISCONNECT
"""

import json
import os
import sys
import threading

import paho.mqtt.client as mqtt
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

PATIENCE_S = 30
SESSION_S = 3600

port, version = int(sys.argv[1]), int(sys.argv[2])
device = json.load(sys.stdin)
messages, lasting = device["messages"], device.get("lasting", False)

# paho 2 asks which form of callbacks is meant, paho 1 does not know the question.
arguments = [mqtt.CallbackAPIVersion.VERSION1] if hasattr(mqtt, "CallbackAPIVersion") else []
if version == 5:
    client = mqtt.Client(*arguments, client_id="paho", protocol=mqtt.MQTTv5)
    properties = Properties(PacketTypes.CONNECT)
    properties.SessionExpiryInterval = SESSION_S if lasting else 0
    connecting = {"clean_start": not lasting, "properties": properties}
else:
    client = mqtt.Client(*arguments, client_id="paho", protocol=mqtt.MQTTv311, clean_session=not lasting)
    connecting = {}
if "login" in device:
    client.username_pw_set(*device["login"])
if "will" in device:
    client.will_set(*device["will"], qos=1)
told = {"session_present": None, "granted": None, "acknowledged": [], "disconnected": None}
connected, subscribed, acknowledged, disconnected = (threading.Event() for _ in range(4))


def code_of(reason):
    return int(reason.value if hasattr(reason, "value") else reason)


def on_connect(_client, _userdata, flags, reason, _properties=None):
    told["connected"] = code_of(reason)
    told["session_present"] = flags["session present"]
    connected.set()


def on_subscribe(_client, _userdata, _mid, granted, _properties=None):
    told["granted"] = [code_of(code) for code in granted]
    subscribed.set()


def on_publish(_client, _userdata, mid):
    told["acknowledged"].append(mid)
    if len(told["acknowledged"]) == len(messages):
        acknowledged.set()


def on_disconnect(_client, _userdata, reason, _properties=None):
    told["disconnected"] = str(reason)
    disconnected.set()


def end():
    json.dump(told, sys.stdout)
    sys.stdout.flush()
    # At once: a client that is not connected would try again, and one that vanishes says nothing more.
    os._exit(0)


client.on_connect = on_connect
client.on_subscribe = on_subscribe
client.on_publish = on_publish
client.on_disconnect = on_disconnect
client.connect("127.0.0.1", port, keepalive=10, **connecting)
client.loop_start()
assert connected.wait(PATIENCE_S), "no CONNACK"
if told["connected"] != 0:
    end()
client.subscribe([(topic, 1) for topic in device.get("subscribe", ["dev/+/0xA/#"])])
assert subscribed.wait(PATIENCE_S), "no SUBACK"
sent = [client.publish(topic, payload, qos=device.get("qos", 1)).mid for topic, payload in messages]
assert not messages or acknowledged.wait(PATIENCE_S), (
    f"only {len(told['acknowledged'])} of {len(messages)} reports are acknowledged"
)
told["in_order"] = told["acknowledged"] == sent
told["acknowledged"] = len(told["acknowledged"])
if not device.get("vanish"):
    client.disconnect()
    assert disconnected.wait(PATIENCE_S), "no end"
end()
