"""Keeps the UTXO set of a chain by the change stream, and survives whatever cuts it off.

    python3 examples/stream_client.py http://127.0.0.1:8080 FROM_HEIGHT UNTIL_HEIGHT

Outputs from before FROM_HEIGHT are not known to it, so start at 0 for the whole set, or load the set
at FROM_HEIGHT first.
"""

import json
import sys
import time
import urllib.error
import urllib.request


def events(url, from_height, cursor):
    """The events of one connection, as dictionaries."""
    request = urllib.request.Request(f"{url}/api/v1/stream?from_height={from_height}")
    if cursor is not None:
        request.add_header("Last-Event-ID", cursor)
    with urllib.request.urlopen(request, timeout=60) as answer:
        for line in answer:
            if line.startswith(b"data: "):
                yield json.loads(line[len(b"data: "):])


def carry_out(outputs, event):
    """Changes the set as an event says. A real program commits this together with the cursor."""
    def put(items):
        for output in items:
            outputs[(output["tx_hash"], output["output_index"])] = int(output["amount"])

    def take(items):
        for output in items:
            outputs.pop((output["tx_hash"], output["output_index"]), None)

    if event["event"] == "apply":
        take(event.get("replaced", []))
        put(event["created"])
        take(event["spent"])
    elif event["event"] == "undo":
        put(event["spent"])
        take(event["created"])
        put(event.get("replaced", []))


def main(url, from_height, until_height):
    outputs, cursor = {}, None
    while True:
        try:
            for event in events(url, from_height, cursor):
                carry_out(outputs, event)
                cursor = event["cursor"]
                is_done = event["event"] == "apply" and event["is_last"]
                if is_done and event["block"]["height"] >= int(until_height):
                    total = sum(outputs.values())
                    print(f"height {event['block']['height']}: {len(outputs)} outputs, {total}")
                    return
        except urllib.error.HTTPError as error:
            if error.code != 503:
                sys.exit(error.read().decode())
        except OSError as error:
            print(f"cut off: {error}", file=sys.stderr)
        time.sleep(1)


if __name__ == "__main__":
    main(*sys.argv[1:4])
