"""The lifecycle of data (contract-2, 6): what came from an account is sealed, and gone when the account is."""
import base64, glob, shutil, subprocess
from lib import *

def inside(words):
    """Which of the words can be read in what the service has stored: {place: words found}; None for a place that is not here."""
    forms = {w: [w.encode(), w.encode().hex().encode(), w.encode().hex().upper().encode(), base64.b64encode(w.encode())[:-4]] for w in words}
    def scan(blocks):
        found, tail = set(), b""
        for b in blocks:
            b = tail + b
            found |= {w for w, fs in forms.items() if any(f in b for f in fs)}
            tail = b[-512:]
        return sorted(found)
    def of_file(path):
        with open(path, "rb") as f:
            while b := f.read(1 << 20):
                yield b
    out = {"the database": None, "JetStream": None, "the nodes' logs": None}
    if ENV.get("DATABASE_URL") and shutil.which("pg_dump"):
        p = subprocess.Popen(["pg_dump", "--inserts", ENV["DATABASE_URL"]], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        out["the database"] = scan(iter(lambda: p.stdout.read(1 << 20), b""))
        if p.wait() != 0:
            out["the database"] = None
    files = [f for d in glob.glob(".dev/nats*") + glob.glob(".dev/jetstream*") for f in glob.glob(d + "/**/*", recursive=True) if os.path.isfile(f)]
    if files:
        out["JetStream"] = sorted({w for f in files if os.path.exists(f) for w in scan(of_file(f))})
    logs = [f for f in glob.glob(".dev/log/*.log") if "sandbox" not in f and "postgres" not in f]
    if logs:
        out["the nodes' logs"] = sorted({w for f in logs for w in scan(of_file(f))})
    return out

def told(when, words):
    for place, found in inside(words).items():
        if found is None:
            skip(f"{when}: {place}", "cannot be read here")
        else:
            check(f"{when}: nothing of it in {place}", not found, found)

def scene():
    """An account with a past: messages sent and received, deliveries that worked and that failed, a job."""
    w = {n: n[:2] + uuid.uuid4().hex for n in ("sent", "received", "refused")}
    _, k = org(plan="scale", limits=roomy())
    acc = connect(k, remember_credentials=True); ready(k, acc)
    rec = Receiver(judge=lambda g: 422 if w["refused"].encode() in g["body"] else 200)
    call("PUT", f"/v1/accounts/{acc}/webhook", {"url": rec.url + "/l", "events": ["message*"]}, key=k)
    fan = sdk(k, acc, "fans.list", {"limit": 1}).get("result", "items", 0, "user", "id")
    h = {"Idempotency-Key": uuid.uuid4().hex}
    sdk(k, acc, "messages.send", {"chatId": fan, "text": w["sent"]}, headers=h)
    sdk(k, acc, "messages.send", {"chatId": fan, "text": 7}, headers=h)
    fire(k, acc, "message", {"text": w["received"]}); fire(k, acc, "message", {"text": w["refused"]})
    ev = until(lambda: (lambda t: t if w["sent"] in t and w["received"] in t and w["refused"] in t else None)(pull(k, "/v1/events", limit=100).raw.decode()), 15)
    rec.wait("/l", 3)
    j = call("POST", "/v1/jobs", {"kind": "org_export"}, key=k).get("job", "id")
    must("before: a job over the account", j)
    until(lambda: call("GET", f"/v1/jobs/{j}", key=k).get("job", "finishedAt"), 60)
    return k, acc, w, j, rec, ev

def erased():
    k, acc, w, j, rec, ev = scene()
    must("before: the messages are in the log of events", bool(ev))
    words = [w["sent"], w["received"], w["refused"]]
    ids = {e["id"] for e in pull(k, f"/v1/accounts/{acc}/events", limit=100).get("events") or [] if e["event"].startswith("message")}
    hooks = deliveries(k, f"/v1/accounts/{acc}/webhook", 3).get("deliveries") or []
    check("before: deliveries are in their log", len(hooks) >= 3, len(hooks))
    r = call("GET", f"/v1/jobs/{j}/result", key=k)
    check("before: the job's result has the message", w["sent"].encode() in plain(r), r.status)
    time.sleep(1.5)
    told("sealed while the account lives", words)
    d = call("DELETE", f"/v1/accounts/{acc}", key=k)
    must("disconnect", d.status == 200, d)
    time.sleep(1.5)
    for u in URLS:
        r = call("GET", "/v1/events?limit=100", key=k, headers={"Accept": "application/json"}, base=u)
        check(f"no text in GET /v1/events on {u.rsplit(':', 1)[-1]}", r.status == 200 and not any(x in r.raw.decode() for x in words))
    r = pull(k, "/v1/events", limit=100)
    rows = [e for e in r.get("events") or [] if e["id"] in ids]
    check("the events' ids, kinds and times stay", {e["id"] for e in rows} == ids and len(ids) >= 3 and all(e.get("event") and e.get("ts") for e in rows), (len(rows), len(ids)))
    check("with data: null and meta.purged: true", bool(rows) and all(e.get("data", 0) is None and e.get("meta", {}).get("purged") is True for e in rows), rows[:1])
    if ids:
        r = call("GET", f"/v1/events/{sorted(ids)[0]}", key=k)
        check("the same for one event", r.status == 200 and not any(x in r.raw.decode() for x in words) and '"purged":true' in r.raw.decode().replace(" ", ""), r)
    s = SSE("/v1/events?last_event_id=0", k); s.wait("account.disconnected", 1, 10); s.close()
    check("the same on the stream, from its beginning", len(s.events) > 3 and not any(x in json.dumps(s.events) for x in words), len(s.events))
    for p in ["/v1/deliveries?limit=100", "/v1/logs?limit=100", f"/v1/logs?accountId={acc}", "/v1/errors", "/v1/me/audit?limit=100", "/v1/jobs", "/v1/connect/attempts", "/v1/webhooks"] + \
             [f"/v1/deliveries/{x['id']}" for x in hooks[:3]] + [f"/v1/jobs/{j}", f"/v1/jobs/{j}/result"]:
        r = call("GET", p, key=k)
        check(f"no text in {re.sub(r'(acct|whd|job)_[a-z0-9]+', '{id}', p)}", r.status < 500 and not any(x.encode() in plain(r) for x in words), r.status)
    told("after the account is gone", words)
    rec.close()

def receipt():
    _, k = org(limits=roomy())
    acc = connect(k)
    call("DELETE", f"/v1/accounts/{acc}", key=k)
    r = call("GET", f"/v1/accounts/{acc}/purge-receipt", key=k)
    must("a receipt", r.status == 200 and isinstance(r.get("receipt"), dict), r)
    def find(v, name):
        return next((x for p, x in walk(v) if p.rsplit(".", 1)[-1] == name), None)
    t = r.get("receipt")
    check("camelCase throughout", not [n for n in names(t) if "_" in n], sorted(n for n in names(t) if "_" in n))
    check("accountId and purgedAt", find(t, "accountId") == acc and re.match(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$", str(find(t, "purgedAt"))), t)
    covers = {v for p, v in walk(t) if ".covers[" in p}
    check("covers session, credentials, events, deliveries, jobResults", covers == {"session", "credentials", "events", "deliveries", "jobResults"}, sorted(covers))
    check("keyring says separate or shared", find(t, "keyring") in ("separate", "shared"), find(t, "keyring"))
    kid, sig = find(t, "keyId"), find(t, "signature")
    keys = call("GET", "/v1/receipt-keys", key=k)
    check("GET /v1/receipt-keys has the key that signed", keys.status == 200 and kid and kid in [v for _, v in walk(keys.json)], (kid, keys))
    if keys.status == 200 and "ed25519" in keys.raw.decode().lower():
        # Python's standard library cannot verify Ed25519, so only the form is looked at.
        try:
            n = len(base64.b64decode((sig or "") + "=" * (-len(sig or "") % 4), altchars=b"-_" if set(sig or "") & set("-_") else None))
        except ValueError:
            n = 0
        check("a signature of Ed25519's length", n == 64, sig)
        pub = [v for _, v in walk(keys.json) if isinstance(v, str) and len(v) >= 40]
        check("and a public key to verify it with", bool(pub), keys)
    else:
        check("a signature", bool(sig) and keys.status == 200, (sig, keys.status))
    problem("reconnecting is a new account: the old id stays gone", call("GET", f"/v1/accounts/{acc}", key=k), 404, "account-not-found")

def audit():
    _, k = org(limits=roomy())
    label, new = "La" + uuid.uuid4().hex, "Lb" + uuid.uuid4().hex
    acc = connect(k, label=label)
    a = call("GET", f"/v1/accounts/{acc}", key=k).get("account") or {}
    call("PATCH", f"/v1/accounts/{acc}", {"label": new, "metadata": {"note": label}}, key=k)
    call("DELETE", f"/v1/accounts/{acc}", key=k)
    time.sleep(1)
    r = call("GET", "/v1/me/audit?limit=100", key=k)
    own = [e for e in r.get("entries") or [] if e.get("target") == acc]
    check("the entries stay, with the account's id", r.status == 200 and len(own) >= 3, len(own))
    text = r.raw.decode()
    for name, v in (("label", label), ("new label", new), ("ofUserId", a.get("ofUserId")), ("username", a.get("username")), ("name", a.get("displayName"))):
        check(f"no {name} in the audit log", bool(v) and v not in text, [e.get("changes") for e in own if v and v in json.dumps(e)][:1])
    r = call("GET", "/v1/me/audit?limit=100", key=k, headers={"Accept": "text/csv"})
    check("nor in its sheet", label not in r.raw.decode(errors="replace") and new not in r.raw.decode(errors="replace"))

def org_export():
    oid, k = org(limits=roomy())
    acc = connect(k, label="Export")
    r = call("POST", "/v1/jobs", {"kind": "org_export"}, key=k)
    must("a job org_export begins", r.status in (201, 202) and r.get("job", "id"), r)
    j = r.get("job", "id")
    r = until(lambda: (lambda x: x if x.get("job", "finishedAt") else None)(call("GET", f"/v1/jobs/{j}", key=k)), 60, 0.5) or Reply(0, {}, b"")
    check("and completes", r.get("job", "state") == "completed", r)
    body = plain(call("GET", f"/v1/jobs/{j}/result", key=k))
    check("it holds the org and its accounts, and no key", oid.encode() in body and acc.encode() in body and k.encode() not in body, len(body))

for group in (erased, receipt, audit, org_export):
    guarded(group)
finish()
