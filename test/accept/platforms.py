"""Platforms (contract-2, 2), against a real Ghost: needs a system started with GHOST=1 make up. Arguments choose groups."""
import html
from lib import *

GHOST, EMAIL, PASSWORD, KEY = (ENV.get(n, "") for n in ("GHOST_URL", "GHOST_EMAIL", "GHOST_PASSWORD", "STAGEDOOR_LIVE_API_KEY"))
GHOST = GHOST.rstrip("/")
API, UA = GHOST + "/ghost/api/admin", "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36"
SITE = {"platform": "ghost", "site": GHOST}
HERE = {}  # the account under test, once there is one, and the catalogue

def mails():
    return call("GET", "/control/mails?to=" + urllib.parse.quote(EMAIL), base=SANDBOX).get("mails") or []

def code_after(n, seconds=30):
    """The code in the first mail that came after the first n."""
    def look():
        for m in mails()[n:][::-1]:
            found = re.search(r"\b(\d{6})\b", f"{m.get('subject')} {m.get('text')} " + html.unescape(re.sub(r"<[^>]+>", " ", m.get("html") or "")))
            if found:
                return found.group(1)
    return until(look, seconds, 0.3)

def ghost(method, path, body=None, cookie=None, **kw):
    """A call to Ghost itself, as its own admin page makes it."""
    h = {"Origin": GHOST, "User-Agent": UA, "Accept-Version": "v5.0", **({"Cookie": cookie} if cookie else {})}
    return call(method, API + path, body, headers=h, **kw)

def session():
    """A session of our own: the cookie, as a browser would have it."""
    n = len(mails())
    r = ghost("POST", "/session/", {"username": EMAIL, "password": PASSWORD})
    cookie = next((c.split(";")[0] for c in r.headers.get_all("Set-Cookie") or [] if "session" in c.split("=")[0]), None)
    if r.status == 403 and cookie:
        r = ghost("PUT", "/session/verify/", {"token": code_after(n) or ""}, cookie)
    if not cookie or r.status not in (200, 201):
        raise RuntimeError(f"Ghost itself did not let us in: {r}")
    return cookie

def alive(cookie):
    return ghost("GET", "/users/me/", cookie=cookie).status == 200

def start(body, path="/v1/connect/login"):
    return call("POST", path, {**SITE, **body}, key=KEY)

def account():
    if not HERE.get("id"):
        must("an account on Ghost to work with", False, "no sign-in worked")
    return HERE["id"]

def run(method, args=None, **kw):
    return sdk(KEY, account(), method, args, **kw)

def wrapped(method, **fields):
    """The arguments in the form that the catalogue asks for: flat, or Ghost's own {members: [{…}]}."""
    props = HERE.get("methods", {}).get(method, {}).get("args", {}).get("properties", {})
    many = method.split(".")[0]
    return {many: [fields]} if many in props else {many[:-1]: fields} if many[:-1] in props else fields

def rows(r):
    v = r.get("result")
    return v if isinstance(v, list) else next((x for x in v.values() if isinstance(x, list)), []) if isinstance(v, dict) else []

def one(r):
    v = r.get("result")
    inner = rows(r)
    return inner[0] if inner and not (isinstance(v, dict) and "id" in v) else v if isinstance(v, dict) else {}

def following(r):
    """What asks for the next page, or None at the end."""
    if r.get("result", "nextCursor"):
        return {"cursor": r.get("result", "nextCursor")}
    return {"page": r.get("result", "meta", "pagination", "next")} if r.get("result", "meta", "pagination", "next") else None

def listed():
    r = call("GET", "/v1/platforms", key=KEY)
    p = r.get("platforms", 0) or {}
    check("ghost is the first platform of a live org", r.status == 200 and p.get("id") == "ghost", r)
    check("environment live, siteRequired, eventSource poll", p.get("environment") == "live" and p.get("siteRequired") is True and p.get("eventSource") == "poll", p)
    check("every member of a platform", {"id", "name", "environment", "siteRequired", "homeUrl", "logo", "flows", "regions", "resources", "eventSource"} <= set(p) and isinstance(p.get("resources"), int), sorted(p))
    check("no sandbox among them", all(x.get("environment") == "live" for x in r.get("platforms") or []))
    _, k = org()
    s = call("GET", "/v1/platforms", key=k)
    check("a sandbox org sees the sandbox, and no live one", s.status == 200 and s.get("platforms") and all(x.get("environment") == "sandbox" for x in s.get("platforms")) and s.get("platforms", 0, "eventSource") == "socket", s)
    f = call("GET", "/v1/connect/flows", key=KEY)
    on = {x.get("kind") for x in f.get("flows") or [] if x.get("enabled")}
    check("flows are enabled: credentials, cookie, curl", {"credentials", "cookie", "curl"} <= on, sorted(on))
    c = call("GET", "/v1/sdk/methods?platform=ghost", key=KEY)
    HERE["methods"] = {f"{m['resource']}.{m['method']}": m for m in c.get("methods") or []}
    want = {"members.list", "members.create", "members.get", "posts.create", "posts.list", "tiers.list"}
    check("the catalogue of ghost", c.status == 200 and want <= set(HERE["methods"]), sorted(want - set(HERE["methods"])))
    check("it is the default of a live org", set((call("GET", "/v1/sdk/methods", key=KEY).get("resources") or {})) == set(c.get("resources") or {"?": 0}))
    check("and has nothing of the sandbox", "fans.list" not in HERE["methods"])

def sign_in():
    n = len(mails())
    r = start({"email": EMAIL, "password": PASSWORD, "label": "Ghost"})
    must("start is 202, with platform and site", r.status == 202 and r.get("platform") == "ghost" and r.get("site") == GHOST, r)
    a = r.get("attempt_id")
    r = poll(a, KEY, ("needs_email",) + TERMINAL)
    must("Ghost asks for the code it has mailed: needs_email", r.get("state") == "needs_email" and r.get("otp_channel") == "email", r)
    if "send_email" in (r.get("next_actions") or []):
        call("POST", f"/v1/connect/login/{a}/send-email-to-creator", key=KEY)
    code = code_after(n)
    must("the mail came", bool(code))
    r = call("PUT", f"/v1/connect/login/{a}", {"code": "000000" if code != "000000" else "111111"}, key=KEY)
    check("a wrong code: wrong_2fa_code_retry", r.status == 200 and r.get("state") == "wrong_2fa_code_retry", r)
    call("PUT", f"/v1/connect/login/{a}", {"code": code}, key=KEY)
    r = poll(a, KEY, TERMINAL)
    check("the code from the mail: completed_success", r.get("state") == "completed_success" and r.get("account_id"), r)
    HERE["id"] = r.get("account_id")
    acc = call("GET", f"/v1/accounts/{account()}", key=KEY).get("account") or {}
    check("Account.platform and site", acc.get("platform") == "ghost" and acc.get("site") == GHOST, acc)
    check("the filter by platform", HERE["id"] in [x["id"] for x in call("GET", "/v1/accounts?platform=ghost", key=KEY).get("accounts") or []] and not call("GET", "/v1/accounts?platform=sandbox", key=KEY).get("accounts"))
    me = call("GET", f"/v1/accounts/{HERE['id']}/me", key=KEY)
    check("/me is the person on Ghost", me.status == 200 and me.get("me", "id") == acc.get("ofUserId") and EMAIL in me.raw.decode(), me)

def wrong_password():
    r = start({"email": EMAIL, "password": "wrong " + uuid.uuid4().hex, "supersede": True})
    r = poll(r.get("attempt_id"), KEY, TERMINAL + ("needs_email",))
    check("a wrong password: completed_failed invalid_credentials", r.get("state") == "completed_failed" and r.get("failure", "code") == "invalid_credentials", r)

def by_cookie():
    """Also what the groups behind it work with, if the password flow does not work."""
    HERE["cookie"] = session()
    r = start({"cookie": HERE["cookie"], "user_agent": UA}, "/v1/connect/cookie")
    must("the cookie flow starts", r.status == 202, r)
    r = poll(r.get("attempt_id"), KEY, TERMINAL)
    check("it completes, as the same account", r.get("state") == "completed_success" and r.get("account_id") == (HERE.get("id") or r.get("account_id")), r)
    HERE["id"] = HERE.get("id") or r.get("account_id")
    problem("a cookie without a site", call("POST", "/v1/connect/cookie", {"platform": "ghost", "cookie": HERE["cookie"], "user_agent": UA}, key=KEY), 422, "validation-failed")

def calls():
    account()
    cookie = HERE.get("cookie") or session()
    mail = f"m{uuid.uuid4().hex[:10]}@example.com"
    r = run("members.create", wrapped("members.create", email=mail, name="Check"))
    must("members.create", r.status == 200 and one(r).get("email") == mail, r)
    mid = one(r).get("id")
    direct = ghost("GET", f"/members/{mid}/", cookie=cookie)
    check("Ghost itself has the member", direct.status == 200 and direct.get("members", 0, "email") == mail, direct)
    props = HERE.get("methods", {}).get("members.get", {}).get("args", {}).get("required") or ["id"]
    r = run("members.get", {props[0]: mid})
    check("members.get", r.status == 200 and one(r).get("id") == mid, r)
    r = run("members.create", wrapped("members.create", email=mail))
    problem("what Ghost refuses", r, 422, "upstream/rejected", retryable=False)
    check("with Ghost's own words", isinstance(r.get("upstreamMessage"), str) and len(r.get("upstreamMessage")) > 5 and "upstreamCode" in (r.json or {}), r)
    title = "Check " + uuid.uuid4().hex[:8]
    r = run("posts.create", wrapped("posts.create", title=title))
    check("posts.create", r.status == 200 and one(r).get("title") == title, r)
    check("posts.list has it", title in run("posts.list", {"limit": 5}).raw.decode(), r)
    r, direct = run("tiers.list"), ghost("GET", "/tiers/", cookie=cookie)
    check("tiers.list as Ghost sees them", r.status == 200 and {x["id"] for x in rows(r)} == {x["id"] for x in direct.get("tiers") or [{"id": "?"}]}, r)
    r = run("members.lst")
    problem("an unknown method", r, 404, "method-not-found")
    check("with a suggestion", "members.list" in json.dumps(r.get("suggestions")), r)
    for m in ("fans.list", "chats.list"):
        problem(f"a method of the sandbox, {m}", run(m), 404, "method-not-found")
    _, narrow = mint(KEY, scopes=["sdk:call"], methods=["ghost:members.*"])
    check("a key for ghost:members.*", sdk(narrow, HERE["id"], "members.list", {"limit": 1}).status == 200 and sdk(narrow, HERE["id"], "tiers.list").get("code") == "method-not-allowed-for-key")

def paging():
    account()
    cookie = HERE.get("cookie") or session()
    total = ghost("GET", "/members/?limit=1", cookie=cookie).get("meta", "pagination", "total") or 0
    for _ in range(max(0, 125 - total)):
        ghost("POST", "/members/", {"members": [{"email": f"p{uuid.uuid4().hex[:12]}@example.com"}]}, cookie)
    want, page = set(), 1
    while page:
        r = ghost("GET", f"/members/?limit=100&page={page}&order=id%20asc", cookie=cookie)
        want |= {x["id"] for x in r.get("members") or []}
        page = r.get("meta", "pagination", "next")
    got, args = [], {"limit": 50}
    for _ in range(100):
        r = run("members.list", args)
        got += [x["id"] for x in rows(r)]
        args = {"limit": 50, **(following(r) or {})}
        if len(args) == 1:
            break
    check(f"paging over {len(want)} members: all of them, each once", len(want) >= 120 and len(got) == len(set(got)) and set(got) == want, (len(want), len(got), r))

def upload():
    data = png(12, 9)
    body, kind = form(("file", "dot.png", "image/png", data))
    r = call("POST", f"/v1/accounts/{account()}/media", body, key=KEY, headers={"Content-Type": kind})
    urls = [v for _, v in walk(r.json) if isinstance(v, str) and v.startswith("http") and "/content/" in v]
    must("an uploaded picture has a URL", r.status in (200, 201) and urls, r)
    got = call("GET", urls[0])
    check("and comes back by it", got.status == 200 and got.raw[:8] == data[:8] and got.raw[16:24] == data[16:24], (got.status, got.raw[:30]))
    r = call("GET", f"/v1/accounts/{HERE['id']}/media?url=" + urllib.parse.quote(urls[0], safe=""), key=KEY)
    check("also through us", r.status == 200 and r.raw == got.raw, r.status)

def events():
    acc = account()
    rec = Receiver()
    r = call("PUT", f"/v1/accounts/{acc}/webhook", {"url": rec.url + "/g"}, key=KEY)
    check("a webhook for it", r.status == 200, r)
    s = SSE(f"/v1/accounts/{acc}/events", KEY)
    must("a stream", s.status == 200 and s.wait("ready"), s.status)
    mail, t0 = f"e{uuid.uuid4().hex[:10]}@example.com", time.time()
    made = ghost("POST", "/members/", {"members": [{"email": mail}]}, HERE.get("cookie") or session())
    must("a member signs up", made.status == 201, made)
    heard = lambda: [json.loads(e["data"]) for e in list(s.events) if mail in e.get("data", "")]
    hooked = lambda: [json.loads(g["body"]) for g in rec.on("/g") if mail.encode() in g["body"]]
    until(lambda: heard() and hooked(), 90, 0.5)
    check(f"on the stream within 90 s ({time.time() - t0:.0f} s)", bool(heard()))
    check("on the webhook too, the same event", bool(hooked()) and bool(heard()) and hooked()[0]["id"] == heard()[0]["id"])
    e = (heard() or hooked() or [{}])[0]
    check("in the envelope of all events", {"id", "event", "accountId", "ts", "data", "meta"} <= set(e) and e.get("accountId") == acc and isinstance(e.get("meta", {}).get("seq"), int) and e["meta"].get("sandbox") is False, e)
    kinds = {x["name"]: x for x in call("GET", "/v1/events/kinds", key=KEY).get("kinds") or []}
    check("of a kind that the catalogue knows for ghost", "ghost" in (kinds.get(e.get("event"), {}).get("platforms") or []), e.get("event"))
    # A new member is a signup and a subscription to each newsletter of the site: several kinds, each one once.
    check("once", len(heard()) == len({(x["event"], json.dumps(x["data"], sort_keys=True)) for x in heard()}), [x["event"] for x in heard()])
    s.close(); call("DELETE", f"/v1/accounts/{acc}/webhook", key=KEY); rec.close()

def ended_there():
    acc = account()
    must("the account lives on a session of ours", HERE.get("cookie") and alive(HERE["cookie"]))
    r = ghost("DELETE", "/session/", cookie=HERE["cookie"])
    must("the session is ended on Ghost", not alive(HERE["cookie"]), r)
    r = until(lambda: (lambda x: x if x.status == 410 else None)(call("GET", f"/v1/accounts/{acc}/me", key=KEY)), 40, 1)
    st = call("GET", f"/v1/accounts/{acc}", key=KEY).get("account") or {}
    if st.get("rememberCredentials") and st.get("state") == "active":
        return check("it signed in again by itself", call("GET", f"/v1/accounts/{acc}/me", key=KEY).status == 200)
    check("the account says reconnect_required", st.get("state") == "reconnect_required", st)
    problem("calls", run("members.list", {"limit": 1}), 410, "account-disconnected")

def by_curl():
    HERE["cookie"] = session()
    curl = f"curl '{API}/users/me/' -H 'accept: application/json' -H 'cookie: {HERE['cookie']}' -H 'origin: {GHOST}' -H 'user-agent: {UA}' --compressed"
    r = start({"curl": curl}, "/v1/connect/curl")
    must("the cURL flow starts", r.status == 202 and r.get("extracted", "missing") == [], r)
    r = poll(r.get("attempt_id"), KEY, TERMINAL)
    check("it completes, as the same account", r.get("state") == "completed_success" and r.get("account_id") == (HERE.get("id") or r.get("account_id")), r)
    HERE["id"] = HERE.get("id") or r.get("account_id")
    check("and the account works again", call("GET", f"/v1/accounts/{account()}/me", key=KEY).status == 200)
    problem("a cURL of another host", start({"curl": curl.replace(GHOST, "https://evil.test")}, "/v1/connect/curl"), 422, "curl-wrong-host")

def sites():
    for name, s in (("loopback, not configured", "http://127.0.0.1:9"), ("private", "https://10.0.0.8"), ("metadata", "http://169.254.169.254"), ("mapped", "https://[::ffff:10.0.0.1]"),
                    ("with a user", "https://user:pw@example.com"), ("with a query", GHOST + "/?a=b"), ("no origin at all", "ghost")):
        r = call("POST", "/v1/connect/login", {"platform": "ghost", "site": s, "email": EMAIL, "password": "x"}, key=KEY)
        check(f"a site is refused: {name}", r.status == 422 and r.get("code") in ("unsafe-url", "validation-failed"), r)
    problem("no site", call("POST", "/v1/connect/login", {"platform": "ghost", "email": EMAIL, "password": "x"}, key=KEY), 422, "validation-failed")
    problem("an unknown platform", call("POST", "/v1/connect/login", {"platform": "cows", "email": EMAIL, "password": "x"}, key=KEY), 422, "validation-failed")

def by_key():
    """An Admin API key, as the owner makes it: another account than the person, on the same site."""
    cookie = HERE.get("cookie") if HERE.get("cookie") and alive(HERE["cookie"]) else session()
    made = ghost("POST", "/integrations/?include=api_keys", {"integrations": [{"name": "Check " + uuid.uuid4().hex[:8]}]}, cookie)
    must("the owner makes an integration", made.status == 201, made.status)
    integration = made.get("integrations", 0)
    token = next(k for k in integration["api_keys"] if k["type"] == "admin")["secret"]
    flow = call("GET", "/v1/connect/flows?platform=ghost", key=KEY).get("flows", 0) or {}
    check("the flow token comes first, with where the key is", flow.get("kind") == "token" and flow.get("enabled") and "Integrations" in flow.get("help", ""), flow)
    r = start({"token": token[:-1]}, "/v1/connect/token")
    problem("a key that lost a character", r, 422, "validation-failed")
    check("at /token, and not repeated", r.get("errors", 0, "pointer") == "/token" and token[:-1].encode() not in r.raw)
    problem("a platform without keys", call("POST", "/v1/connect/token", {"token": token}, key=org()[1]), 422, "validation-failed")
    wrong = token[:-4] + ("0000" if token[-4:] != "0000" else "1111")
    r = poll(start({"token": wrong}, "/v1/connect/token").get("attempt_id"), KEY, TERMINAL)
    check("a wrong key: session_invalid", r.get("state") == "completed_failed" and r.get("failure", "code") == "session_invalid" and "key" in (r.get("failure", "message") or ""), r)
    r = start({"token": token, "label": "Key"}, "/v1/connect/token")
    must("the key flow starts: 202, kind token", r.status == 202 and r.get("kind") == "token" and token.encode() not in r.raw, r.status)
    r = poll(r.get("attempt_id"), KEY, TERMINAL)
    must("it completes without a code", r.get("state") == "completed_success", r)
    acc = r.get("account_id")
    a = call("GET", f"/v1/accounts/{acc}", key=KEY).get("account") or {}
    title = ghost("GET", "/site/").get("site", "title")
    check("Account.credentials is token; its identity is the key, its name the site's", a.get("credentials") == "token" and a.get("ofUserId") == token.split(":")[0] and a.get("displayName") == title and acc != HERE.get("id"), a)
    mail = f"k{uuid.uuid4().hex[:10]}@example.com"
    s = SSE(f"/v1/accounts/{acc}/events", KEY)
    must("a stream", s.status == 200 and s.wait("ready"), s.status)
    r = sdk(KEY, acc, "members.create", {"email": mail})
    check("a write works", r.status == 200 and ghost("GET", f"/members/?filter=email:'{mail}'", cookie=cookie).get("members", 0, "email") == mail, r)
    check("a read works", sdk(KEY, acc, "posts.list", {"limit": 1}).status == 200)
    data = png(8, 8)
    body, kind = form(("file", "key.png", "image/png", data))
    r = call("POST", f"/v1/accounts/{acc}/media", body, key=KEY, headers={"Content-Type": kind})
    check("an upload works", r.status in (200, 201), r)
    for m in ("emails.list", "stats.memberCount", "me.get"):
        r = sdk(KEY, acc, m)
        problem(f"{m} is refused", r, 403, "credentials-not-accepted", retryable=False)
        check("before anything is sent", not r.headers.get("X-Upstream-Duration-Ms") and r.get("accepted") == ["session"], r)
    problem("/me, since a key is no person", call("GET", f"/v1/accounts/{acc}/me", key=KEY), 403, "credentials-not-accepted")
    methods = {f"{m['resource']}.{m['method']}": m.get("credentials") for m in call("GET", "/v1/sdk/methods?platform=ghost", key=KEY).get("methods") or []}
    check("the catalogue says so", methods.get("emails.list") == ["session"] and methods.get("members.list") == ["session", "token"], methods.get("emails.list"))
    until(lambda: [e for e in list(s.events) if mail in e.get("data", "")], 90, 0.5)
    check("its events arrive", any(mail in e.get("data", "") for e in list(s.events)))
    s.close()
    r = poll(start({"token": token, "account_id": acc}, "/v1/connect/token").get("attempt_id"), KEY, TERMINAL)
    check("the same key reconnects the account", r.get("state") == "completed_success" and r.get("account_id") == acc, r)
    if HERE.get("id"):
        r = poll(start({"token": token, "account_id": HERE["id"]}, "/v1/connect/token").get("attempt_id"), KEY, TERMINAL)
        check("a key cannot reconnect a person's account", r.get("failure", "code") == "account_mismatch", r)
    gone = ghost("DELETE", f"/integrations/{integration['id']}/", cookie=cookie)
    must("the owner deletes the integration", gone.status == 204, gone.status)
    until(lambda: sdk(KEY, acc, "posts.list", {"limit": 1}).status == 410, 60, 1)
    st = call("GET", f"/v1/accounts/{acc}", key=KEY).get("account") or {}
    check("the account says reconnect_required", st.get("state") == "reconnect_required", st)
    problem("calls", sdk(KEY, acc, "posts.list", {"limit": 1}), 410, "account-disconnected")
    check("it can be disconnected", call("DELETE", f"/v1/accounts/{acc}", key=KEY).status == 200)

def disconnect():
    acc = account()
    live = HERE.get("cookie") and alive(HERE["cookie"])
    d = call("DELETE", f"/v1/accounts/{acc}", key=KEY)
    check("DELETE", d.status == 200 and d.get("deleted") is True, d)
    r = until(lambda: (lambda x: x if x.status == 403 else None)(ghost("GET", "/users/me/", cookie=HERE.get("cookie") or "x=y")), 15, 0.5)
    check("it ended the session on Ghost: a direct call with its cookie is 403", bool(live) and r is not None, (live, r))

if not (GHOST and EMAIL and PASSWORD and KEY):
    check("a system started with GHOST=1 make up", False, "GHOST_URL, GHOST_EMAIL, GHOST_PASSWORD or STAGEDOOR_LIVE_API_KEY is not in .dev/env")
else:
    for group in (listed, sign_in, wrong_password, sites, by_cookie, calls, paging, upload, events, ended_there, by_curl, by_key, disconnect):
        if len(sys.argv) == 1 or group.__name__ in sys.argv[1:]:
            guarded(group)
finish()
