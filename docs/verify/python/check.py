"""Checks the helper against the vectors."""
import json
import pathlib
import sys

import stagedoor_verify as v

here = pathlib.Path(__file__).parent
bad = 0
for c in json.loads((here.parent / "vectors.json").read_text()):
    body, at = c["body"].encode(), c["timestamp"]
    args = (c["secret"], c["id"], str(at), c["standard"], body)
    headers = {"x-webhook-signature": c["signature"], "webhook-id": c["id"], "webhook-timestamp": str(at), "webhook-signature": c["standard"]}
    # The receiver still uses the old secret, whose signature is sent along with the new one.
    rotated = {**headers, "x-webhook-signature": "sha256=00", "x-webhook-signature-previous": c["signature"], "webhook-signature": "v1,00 " + c["standard"]}
    got = (v.verify_signature(c["secret"], c["signature"], body), v.verify_standard(*args, at), v.verify_request(c["secret"], headers, body, at),
           v.verify_request(c["secret"], rotated, body, at))
    if got != (c["valid"],) * 4 or v.verify_standard(*args, at + 360):
        bad += 1
        print("wrong:", c["name"], got)
sys.exit(1 if bad else 0)
