"""The SDK catalog as the API shows it, and the sandbox platform behind it."""
import os
from lib import *

here = os.path.dirname(os.path.abspath(__file__))
WANT = {(r["resource"], m["method"]): m for r in json.load(open(os.path.join(here, "..", "..", "internal", "platform", "catalog", "testdata", "catalog.json"))) for m in r["methods"]}

def catalog():
    _, k = org()
    r = call("GET", "/v1/sdk/methods", key=k)
    check("GET /v1/sdk/methods is 200", r.status == 200, r)
    res = r.get("resources") or {}
    have = {(a, b) for a, ms in res.items() for b in ms}
    check("all 250 methods by name", set(WANT) <= have, sorted(set(WANT) - have)[:8])
    check("an ETag, and 304 on If-None-Match", bool(r.headers.get("ETag")) and call("GET", "/v1/sdk/methods", key=k, headers={"If-None-Match": r.headers.get("ETag") or "x"}).status == 304, r.headers.get("ETag"))
    full = {(m["resource"], m["method"]): m for m in r.get("methods") or []}
    check("every method has its machine form", set(WANT) <= set(full), len(full))
    bad = [k for k, m in WANT.items() if full.get(k, {}).get("access") != m["access"]]
    check("access is right for each", not bad, bad[:5])
    bad = [k for k, m in full.items() if not isinstance(m.get("args"), dict) or m["args"].get("type") != "object"]
    check("arguments are JSON Schema objects", not bad, bad[:5])
    bad = [k for k, m in WANT.items() if k in full and set((full[k]["args"].get("required") or [])) != {a["name"] for a in m["args"] if a.get("required")}]
    check("required arguments match", not bad, bad[:5])
    check("filter by resource", {m["resource"] for m in call("GET", "/v1/sdk/methods?resource=chats", key=k).get("methods") or [{"resource": "?"}]} == {"chats"})
    check("filter by access", {m["access"] for m in call("GET", "/v1/sdk/methods?access=write", key=k).get("methods") or [{"access": "?"}]} == {"write"})
    o = call("GET", "/v1/openapi.json")
    paths = o.get("paths") or {}
    check("every SDK method is a typed operation in OpenAPI", all(f"/v1/accounts/{{id}}/{a}/{b}" in paths for a, b in WANT), [k for k in WANT if f"/v1/accounts/{{id}}/{k[0]}/{k[1]}" not in paths][:5])

def platform():
    r = call("GET", "/control/requests", base=SANDBOX)
    check("the sandbox platform runs on its own port", r.status == 200 and isinstance(r.get("requests"), list), r)
    r = call("POST", "/control/faults", {"scope": "nobody@sandbox.test", "kind": "latency", "value": 50}, base=SANDBOX)
    check("faults can be set", r.status == 200 and bool(r.get("id")), r)
    check("and cleared", call("DELETE", "/control/faults", base=SANDBOX).status in (200, 204))

guarded(catalog); guarded(platform)
finish()
