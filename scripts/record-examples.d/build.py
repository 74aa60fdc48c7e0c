"""Makes the examples of the OpenAPI document from what the tests recorded (scripts/record-examples).

build.py RECORDINGS [OPERATION…] writes internal/server/api/examples: a file per operation with a response for each status, a file per
kind of event, and the problems; or only the files of some operations. Ids, times, secrets and addresses are replaced by values that stay the same.
"""

import collections
import datetime
import glob
import json
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
OUT = os.path.join(ROOT, "internal/server/api/examples")
# The creator of the examples in the manifest.
CREATOR = "343826782"
NOW = datetime.datetime(2026, 11, 15, 12, 0, tzinfo=datetime.timezone.utc)
LARGEST = 4000

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
ID = re.compile(r"\b([a-z]{2,5})_(01[0-9a-z]{24})\b")
TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$")
SECRETS = {
    "key": "sd_sandbox_EXAMPLE", "signingSecret": "whsec_EXAMPLE", "client_token": "cst_EXAMPLE", "token": "EXAMPLE",
    "cookie": "sess=EXAMPLE; auth_id=343826782", "x-bc": "EXAMPLE",
}


class Stable:
    """Replaces what differs from run to run. One object per example, so that equal values stay equal."""

    def __init__(self, body):
        self.ids = {}
        now = datetime.datetime.now(datetime.timezone.utc)
        past = [t for t in self.times(body) if t <= now]
        self.shift = NOW - max(past) if past else datetime.timedelta()

    def times(self, value):
        if isinstance(value, dict):
            for v in value.values():
                yield from self.times(v)
        elif isinstance(value, list):
            for v in value:
                yield from self.times(v)
        elif isinstance(value, str) and TIME.match(value):
            yield datetime.datetime.fromisoformat(value.replace("Z", "+00:00"))

    def id(self, m):
        whole = m.group(0)
        if whole not in self.ids:
            n = len(self.ids)
            self.ids[whole] = f"{m.group(1)}_01k9x3m5v8e7rbq2n4t6w8y{ALPHABET[n // 32 % 32]}{ALPHABET[n % 32]}c"
        return self.ids[whole]

    def text(self, name, value):
        if name in SECRETS and len(value) > 11:
            return SECRETS[name]
        if TIME.match(value):
            at = datetime.datetime.fromisoformat(value.replace("Z", "+00:00"))
            at = (at + self.shift).replace(microsecond=0)
            return at.strftime("%Y-%m-%dT%H:%M:%S.000Z")
        if "://" in value:
            value = re.sub(r"\b(at|cs|rc)_?[\w-]{40,}", r"\1_EXAMPLE", value)
            value = re.sub(r"/(c|r|a|m)/[\w-]{30,}", r"/\1/EXAMPLE", value)
        value = ID.sub(self.id, value)
        value = re.sub(r"\bsd_(sandbox|live)_\w{20,}", r"sd_\1_EXAMPLE", value)
        value = re.sub(r"\bwhsec_[\w+/=]{20,}", "whsec_EXAMPLE", value)
        value = value.replace("http://stagedoor.test", "https://api.stagedoor.example")
        value = value.replace("http://connect.stagedoor.test", "https://connect.stagedoor.example")
        value = re.sub(r"https?://(127\.0\.0\.1|localhost)(:\d+)?", "https://sandbox.example", value)
        return value

    def value(self, value, name=""):
        if isinstance(value, dict):
            return {self.text("", k): self.value(v, k) for k, v in value.items()}
        if isinstance(value, list):
            # Two elements show the form of a list.
            keep = 2 if any(isinstance(v, (dict, list)) for v in value) else 8
            # Tools look for the target of a $ref also in examples.
            plain = [v for v in value if '"$ref"' not in json.dumps(v)]
            return [self.value(v, name) for v in (plain or value)[:keep]]
        return self.text(name, value) if isinstance(value, str) else value


def size(value):
    return len(json.dumps(value))


def outline(value, name=""):
    """Returns what is alike in examples of the same case: which members are there, and the states."""
    if isinstance(value, dict):
        return tuple((k, outline(v, k)) for k, v in sorted(value.items()))
    if isinstance(value, list):
        return outline(value[0]) if value else None
    if isinstance(value, str):
        return value if name in ("state", "status", "kind") else "text"
    return value if isinstance(value, bool) else type(value).__name__


def is_odd(text):
    """Reports whether a test wrote a value to find a limit: the same character many times, or markup."""
    return bool(re.search(r'(.)\1{15}|"\$ref"|<|\\u00', text))


def best(candidates):
    """Returns an example of the most common case that shows lists with elements, if that is not too long."""
    sane = [c for c in candidates if size(c) <= LARGEST and not is_odd(json.dumps(c))] or [min(candidates, key=size)]
    filled = lambda c: sum(1 for v in c.values() if isinstance(v, (list, dict)) and v) if isinstance(c, dict) else 0
    most = max(filled(c) for c in sane)
    sane = [c for c in sane if filled(c) == most]
    counts = collections.Counter(outline(c) for c in sane)
    usual = counts.most_common(1)[0][0]
    return max((c for c in sane if outline(c) == usual), key=size)


def save(path, value):
    path = os.path.join(OUT, path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        json.dump(value, f, indent=2, ensure_ascii=False)
        f.write("\n")


def envelopes(value):
    """Yields the events in a response."""
    if isinstance(value, dict):
        if {"id", "event", "ts", "data", "meta"} <= value.keys() and isinstance(value["data"], dict) and isinstance(value["event"], str):
            yield value
        for v in value.values():
            yield from envelopes(v)
    elif isinstance(value, list):
        for v in value:
            yield from envelopes(v)


def main():
    with open(os.path.join(ROOT, "openapi/openapi.json"), encoding="utf-8") as f:
        document = json.load(f)
    routes = []
    for path, item in document["paths"].items():
        pattern = re.compile("^" + re.sub(r"\\\{[a-zA-Z]+\\\}", "[^/]+", re.escape(path)).replace("problems/[^/]+", "problems/.+") + "$")
        for method, op in item.items():
            if "x-sdk" not in op and op["operationId"] != "getOpenAPI":
                routes.append((path.count("{"), method.upper(), pattern, op))
    routes.sort(key=lambda r: r[0])
    responses, problems, events, data = {}, {}, {}, {}
    for name in sorted(glob.glob(os.path.join(sys.argv[1], "*.jsonl"))):
        for line in open(name, encoding="utf-8"):
            one = json.loads(line)
            if "sdk" in one:
                text = json.dumps(one["body"]).replace(one["creator"], CREATOR)
                responses.setdefault((one["sdk"], "200"), []).append(json.loads(text))
            elif "event" in one:
                if "envelope" in one:
                    events.setdefault(one["event"], []).append(one["envelope"])
                else:
                    data.setdefault(one["event"], []).append(one["data"])
            elif one["media"] == "application/problem+json":
                problems.setdefault(one["body"]["code"], []).append(one["body"])
            else:
                for e in envelopes(one["body"]):
                    events.setdefault(e["event"], []).append(e)
                for _, method, pattern, op in routes:
                    if method == one["method"] and pattern.match(one["path"]):
                        if str(one["status"]) in op["responses"]:
                            responses.setdefault((op["operationId"], str(one["status"])), []).append(one["body"])
                        break
    files = {}
    for (operation, status), candidates in sorted(responses.items()):
        candidates = [Stable(c).value(c) for c in candidates]
        files.setdefault(operation, {})[status] = best(candidates)
    only = sys.argv[2:]
    for operation, example in files.items():
        if not only or operation in only:
            save(f"operations/{operation}.json", example)
    if only:
        for operation in set(only) - files.keys():
            sys.exit(f"no recording of {operation}")
        return
    save("problems.json", {code: best([Stable(c).value(c) for c in list_]) for code, list_ in sorted(problems.items())})
    frame = next(iter(events.values()))[0]
    for kind in document["webhooks"]:
        if kind in events:
            candidates = events[kind]
        elif kind in data:
            scope = document["webhooks"][kind]["post"]["x-event"]["scope"]
            candidates = [
                {**frame, "event": kind, "accountId": frame["accountId"] if scope == "account" else None, "data": d, "meta": meta(frame, scope)}
                for d in data[kind]
            ]
        else:
            print("no recording of the event", kind)
            continue
        save(f"events/{kind}.json", best([Stable(c).value(c) for c in candidates]))
    for path, item in document["paths"].items():
        for method, op in item.items():
            op_id = op["operationId"]
            if "x-sdk" in op and method == "get":
                op_id = op_id.removesuffix(".get")  # the other form of the same method
            for status, response in op["responses"].items():
                if op_id != "getOpenAPI" and "application/json" in response.get("content", {}) and status not in files.get(op_id, {}):
                    print("no recording of", op_id, status)


def meta(frame, scope):
    m = dict(frame["meta"])
    if scope != "account":
        m["ofUserId"] = None
    m["class"] = "durable"
    return m


main()
