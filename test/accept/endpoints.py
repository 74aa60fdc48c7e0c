"""Webhook endpoints of the organisation."""
from lib import *

BASE = "/v1/webhook-endpoints"

def ctx(accounts=1):
    _, k = org(plan="scale", limits=roomy())
    accs = [connect(k) for _ in range(accounts)]
    for a in accs:
        ready(k, a)
    return k, accs

def make(k, url, **body):
    """An endpoint: its id and its secret. Without one the group has nothing to check."""
    r = call("POST", BASE, {"url": url, **body}, key=k)
    must("an endpoint is made", r.status == 201 and r.get("endpoint", "id") and r.get("endpoint", "signingSecret"), r)
    return r.get("endpoint", "id"), r.get("endpoint", "signingSecret")

def at_least(rec, path, n, seconds=20):
    rec.wait(path, n, seconds)
    return rec.events(path)

def shape():
    k, (acc,) = ctx()
    rec = Receiver()
    r = call("POST", BASE, {"url": rec.url + "/a", "description": "CRM", "events": ["message*", "account.*", "connect.*"]}, key=k)
    must("create is 201 {endpoint}", r.status == 201 and isinstance(r.get("endpoint"), dict), r)
    e, secret = r.get("endpoint"), r.get("endpoint", "signingSecret")
    check("its id begins with whe_", str(e.get("id")).startswith("whe_"), e.get("id"))
    check("a secret is made and shown", isinstance(secret, str) and len(secret) >= 16 and e.get("signingSecretLast4") == secret[-4:], e.get("signingSecretLast4"))
    want = {"id", "url", "description", "events", "accountIds", "platforms", "ordering", "enabled", "disabledReason", "signingSecretLast4", "createdAt", "updatedAt", "health"}
    check("every member of the contract", want <= set(e), sorted(want - set(e)))
    check("with its defaults", e.get("description") == "CRM" and e.get("ordering") == "account" and e.get("enabled") is True and e.get("accountIds") is None and e.get("platforms") is None, e)
    h = {"state", "backlog", "lagSec", "lastStatus", "lastSuccessAt", "failingSince", "successRate24h"}
    check("health has its members", h <= set(e.get("health") or {}), sorted(h - set(e.get("health") or {})))
    p = f"{BASE}/{e.get('id')}"
    g, l = call("GET", p, key=k), call("GET", BASE, key=k)
    check("the secret is not shown again, neither alone nor in the list", g.status == l.status == 200 and secret not in g.raw.decode() + l.raw.decode(), (g, l))
    rows = next((v for v in (l.json or {}).values() if isinstance(v, list)), [])
    check("the list has it", [x.get("id") for x in rows] == [e.get("id")], l)
    r = call("PATCH", p, {"description": "CRM 2"}, key=k)
    check("PATCH changes one thing and shows no secret", r.status == 200 and r.get("endpoint", "description") == "CRM 2" and r.get("endpoint", "events") == e.get("events") and secret not in r.raw.decode(), r)
    t = call("POST", p + "/test", key=k)
    got = rec.wait("/a", 1)
    check("test is delivered, reported and signed", t.status == 200 and t.get("delivered") is True and t.get("status") == 200 and got and signed(got[-1], secret) and json.loads(got[-1]["body"])["event"] == "test", t)
    own = "s" * 32
    r = call("POST", BASE, {"url": rec.url + "/own", "signingSecret": own}, key=k)
    check("a secret of one's own is taken", r.status == 201 and r.get("endpoint", "signingSecretLast4") == own[-4:], r)
    for u in ("http://169.254.169.254/x", "https://10.0.0.8/x", "https://[::ffff:10.0.0.1]/x", "https://user:pw@example.com/x", "ftp://example.com/x", "https://0x7f.1.1.1/x"):
        r = call("POST", BASE, {"url": u}, key=k)
        check(f"refused: {u}", r.status == 422 and r.get("code") in ("unsafe-url", "validation-failed"), r)
    check("a bad address by PATCH too", call("PATCH", p, {"url": "https://10.0.0.8/x"}, key=k).status == 422)
    problem("events: []", call("POST", BASE, {"url": rec.url, "events": []}, key=k), 422, "validation-failed")
    problem("an unknown kind", call("POST", BASE, {"url": rec.url, "events": ["cows"]}, key=k), 422, "unknown-event")
    problem("an unknown ordering", call("POST", BASE, {"url": rec.url, "ordering": "random"}, key=k), 422, "validation-failed")
    problem("1,001 accounts", call("POST", BASE, {"url": rec.url, "accountIds": [acc] * 1001}, key=k), 422, "validation-failed")
    _, ro = mint(k, scopes=["webhooks:read"])
    check("webhooks:read reads", call("GET", p, key=ro).status == 200)
    problem("and does not write", call("PATCH", p, {"enabled": False}, key=ro), 403, "scope-missing")
    _, other = org()
    for m, q, b in (("GET", "", None), ("PATCH", "", {"enabled": False}), ("DELETE", "", None), ("POST", "/test", {}), ("POST", "/rotate-secret", {}), ("POST", "/replay", {"fromTime": e.get("createdAt")}), ("GET", "/deliveries", None)):
        r = call(m, p + q, b, key=other)
        check(f"another org: {m} {q or 'endpoint'} looks absent", r.status == 404 and str(r.get("code")).endswith("-not-found") and r.get("code") != "route-not-found", r)
    d = call("DELETE", p, key=k)
    check("DELETE, then it is gone", d.status == 200 and call("GET", p, key=k).status == 404, d)
    n = len(rec.on("/a")); fire(k, acc); rec.wait("/own", 1); time.sleep(0.5)
    check("and nothing goes there any more", len(rec.on("/a")) == n, len(rec.on("/a")) - n)
    rec.close()

def twenty():
    k, _ = ctx(0)
    made = [call("POST", BASE, {"url": f"http://127.0.0.1:9/{i}"}, key=k) for i in range(21)]
    check("twenty endpoints", [r.status for r in made[:20]] == [201] * 20, [r.status for r in made][:3])
    r = made[20]
    check("the 21st is refused with a problem", 400 <= r.status < 500 and r.status != 404 and (r.headers.get("Content-Type") or "").startswith("application/problem+json"), r)

def filters():
    k, (a, b) = ctx(2)
    rec = Receiver()
    _, s = make(k, rec.url + "/kinds", events=["message*", "connect.*"])
    make(k, rec.url + "/one", accountIds=[a], events=["message", "tips"])
    plat = call("GET", "/v1/platforms", key=k).get("platforms", 0, "id")
    r = call("POST", BASE, {"url": rec.url + "/plat", "platforms": [plat], "events": ["tips"]}, key=k)
    check("a filter by platform is taken", r.status == 201 and r.get("endpoint", "platforms") == [plat], r)
    r = call("PUT", f"/v1/accounts/{a}/webhook", {"url": rec.url + "/own", "events": ["message"]}, key=k)
    own = r.get("webhook", "signingSecret")
    for acc in (a, b):
        fire(k, acc, "message"); fire(k, acc, "tips")
    connect(k)
    until(lambda: any(x["event"] == "connect.attempt_completed" for x in rec.events("/kinds")), 20)
    ev = rec.events("/kinds")
    check("prefixes choose the kinds", {x["event"] for x in ev} >= {"message", "connect.attempt_completed"} and all(x["event"].startswith(("message", "connect.")) for x in ev), sorted({x["event"] for x in ev}))
    check("events of the org come with accountId null", any(x["event"].startswith("connect.") and x["accountId"] is None for x in ev), ev[-1:])
    check("both accounts through one endpoint", {x["accountId"] for x in ev if x["event"] == "message"} == {a, b})
    g = rec.on("/kinds")
    check("envelope, headers and signature as for accounts", g and all(signed(x, s) and header(x["headers"], "X-Webhook-Id") == json.loads(x["body"])["id"] and header(x["headers"], "webhook-signature") for x in g), len(g))
    check("a filter by accounts", [(x["accountId"], x["event"]) for x in at_least(rec, "/one", 2)] == [(a, "message"), (a, "tips")], rec.events("/one"))
    check("a filter by platform holds", sorted(x["accountId"] for x in at_least(rec, "/plat", 2)) == sorted([a, b]), len(rec.on("/plat")))
    g = rec.wait("/own", 1)
    check("the account's own webhook gets its own beside it, under its own secret", len(g) == 1 and signed(g[0], own) and own != s, len(g))
    rec.close()

def order_and_poison():
    k, accs = ctx(4)
    bad, good = accs[0], accs[1:]
    poisoned = threading.Event(); poisoned.set()
    rec = Receiver(judge=lambda g: 500 if poisoned.is_set() and json.loads(g["body"]).get("accountId") == bad else 200)
    eid, _ = make(k, rec.url + "/o", events=["message"])
    fire(k, bad, "message", {"text": "poison"})
    rec.wait("/o", 1); t0 = time.time()
    for i in range(10):
        for a in accs:
            fire(k, a, "message", {"text": str(i)})
    seqs = lambda a: list(dict.fromkeys(x["meta"]["seq"] for x in rec.events("/o") if x["accountId"] == a))
    until(lambda: all(len(seqs(a)) >= 10 for a in good), 20)
    last = max((g["at"] for g in rec.on("/o") if json.loads(g["body"])["accountId"] != bad), default=t0 + 99)
    check("one account's poison holds nobody else up", all(len(seqs(a)) == 10 for a in good) and last - t0 < 15, ([len(seqs(a)) for a in good], last - t0))
    check("each account in order", all(seqs(a) == sorted(seqs(a)) for a in good), [seqs(a) for a in good])
    health = lambda: call("GET", f"{BASE}/{eid}", key=k).get("endpoint", "health") or {}
    h = until(lambda: (lambda h: h if (h.get("lagSec") or 0) >= 1 else None)(health()), 10) or health()  # whole seconds
    check("what waits is counted, and how old it is", (h.get("backlog") or 0) >= 10 and (h.get("lagSec") or 0) >= 1, h)
    poisoned.clear()
    call("PATCH", f"{BASE}/{eid}", {"enabled": False}, key=k); call("PATCH", f"{BASE}/{eid}", {"enabled": True}, key=k)
    until(lambda: len(seqs(bad)) >= 11, 60)
    check("healed, the account gets everything", len(seqs(bad)) == 11, len(seqs(bad)))
    rec.close()

def hold_and_replay():
    k, (a, b) = ctx(2)
    rec = Receiver()
    eid, s = make(k, rec.url + "/h", events=["message", "tips"])
    p = f"{BASE}/{eid}"
    fire(k, a); at_least(rec, "/h", 1)
    r = call("PATCH", p, {"enabled": False}, key=k)
    check("enabled: false", r.status == 200 and r.get("endpoint", "enabled") is False, r)
    n = len(rec.on("/h"))
    for i in range(5):
        fire(k, a, "message", {"text": f"held {i}"})
    time.sleep(2)
    check("nothing leaves while it is held", len(rec.on("/h")) == n, len(rec.on("/h")) - n)
    call("PATCH", p, {"enabled": True}, key=k)
    got = at_least(rec, "/h", n + 5)[n:]
    check("it goes on where it was: each once, in order", [x["meta"]["seq"] for x in got] == sorted({x["meta"]["seq"] for x in got}) and len(got) == 5, len(got))
    fire(k, b, "tips"); fire(k, b, "message"); at_least(rec, "/h", n + 7)
    first, n = rec.events("/h")[0]["ts"], len(rec.on("/h"))
    r = call("POST", p + "/replay", {"fromTime": first, "accountIds": [b], "events": ["tips"]}, key=k)
    got = rec.wait("/h", n + 1)[n:]; time.sleep(1); got = rec.on("/h")[n:]
    check("replay by time, accounts and kinds", r.status == 202 and [(json.loads(g["body"])["accountId"], json.loads(g["body"])["event"]) for g in got] == [(b, "tips")], (r, len(got)))
    check("marked as a replay", bool(got) and bool(header(got[0]["headers"], "X-Webhook-Replay")))
    n = len(rec.on("/h")); call("POST", p + "/replay", {"fromTime": first}, key=k)
    check("replay of everything", {x["id"] for x in at_least(rec, "/h", n + 8)[n:]} == {x["id"] for x in rec.events("/h")[:n]}, len(rec.on("/h")) - n)
    r = call("POST", p + "/rotate-secret", {"overlapSec": 3600}, key=k)
    new = r.get("endpoint", "signingSecret"); n = len(rec.on("/h")); fire(k, a)
    g = (rec.wait("/h", n + 1)[n:] or [None])[0]
    prev = "sha256=" + hmac.new(s.encode(), g["body"], hashlib.sha256).hexdigest() if g else ""
    check("rotate: the new secret signs at once, the old one beside it", r.status == 200 and new and new != s and g and signed(g, new) and header(g["headers"], "X-Webhook-Signature-Previous") == prev, r)
    d = deliveries(k, p, 8)
    check("the log of deliveries", d.status == 200 and len(d.get("deliveries") or []) >= 8, d)
    did = d.get("deliveries", 0, "id")
    r = call("GET", f"{p}/deliveries/{did}", key=k)
    q = r.get("delivery", "request") or {}
    sent = next((g for g in rec.on("/h") if json.loads(g["body"])["id"] == d.get("deliveries", 0, "eventId")), {"body": b"?"})
    body = q.get("body") if isinstance(q.get("body"), str) else json.dumps(q.get("body"))
    check("a delivery's detail has the request as sent", isinstance(q.get("headers"), (dict, list)) and json.loads(body or "null") == json.loads(sent["body"] if sent["body"] != b"?" else b'"?"'), r)
    check("and a curl to repeat it", "curl" in (r.get("delivery", "curl") or "") and rec.url + "/h" in (r.get("delivery", "curl") or ""), r.get("delivery", "curl"))
    check("and no secret", new and new not in r.raw.decode() and s not in r.raw.decode() and k not in r.raw.decode())
    n = len(rec.on("/h")); r = call("POST", f"{p}/deliveries/{did}/redeliver", {}, key=k)
    check("redeliver sends it again", r.status == 202 and len(rec.wait("/h", n + 1)) == n + 1, r)
    rec.close()

for group in (shape, twenty, filters, order_and_poison, hold_and_replay):
    guarded(group)
finish()
