"""Faults with a real Ghost in the loop. Needs a system started with GHOST=1 make up; run it from the clone's root:
    python3 test/ghost/faults.py
It kills, stops and slows Ghost down while calls run and events are polled, and counts: no event may be lost or doubled,
and every error must be a catalogued problem."""
import collections, os, signal, subprocess, sys
sys.path.insert(0, "test/accept")
from lib import *

GHOST, EMAIL, PASSWORD, KEY = (ENV.get(n, "") for n in ("GHOST_URL", "GHOST_EMAIL", "GHOST_PASSWORD", "STAGEDOOR_LIVE_API_KEY"))
UA = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36"
CODES = {p["code"] for p in call("GET", "/problems", headers={"Accept": "application/json"}).get("problems") or []}

def pid():
    with open(".dev/run/ghost.pid") as f:
        return int(f.read())

def start_ghost():
    """Starts Ghost again on the same database, and waits until it answers."""
    subprocess.run(["bash", "-c", ". scripts/lib.sh; . scripts/ghost.sh; . scripts/sandbox.sh; outside_start ghost"], env={**os.environ, "GHOST": "1"}, check=True)
    assert until(lambda: answers(), 60, 0.3), "Ghost does not start"

def answers():
    try:
        return ghost("GET", "/site/").status == 200
    except OSError:
        return False

def mails():
    return call("GET", "/control/mails?to=" + urllib.parse.quote(EMAIL), base=SANDBOX).get("mails") or []

def ghost(method, path, body=None, cookie=None, **kw):
    h = {"Origin": GHOST, "User-Agent": UA, **({"Cookie": cookie} if cookie else {})}
    return call(method, GHOST + "/ghost/api/admin" + path, body, headers=h, **kw)

def session():
    n = len(mails())
    r = ghost("POST", "/session/", {"username": EMAIL, "password": PASSWORD})
    cookie = next(c.split(";")[0] for c in r.headers.get_all("Set-Cookie") if "session" in c.split("=")[0])
    if r.status == 403:
        code = until(lambda: next((m["subject"][:6] for m in mails()[n:]), None), 30, 0.3)
        r = ghost("PUT", "/session/verify/", {"token": code}, cookie)
    assert r.status in (200, 201), r
    return cookie

def connect(cookie):
    r = call("POST", "/v1/connect/cookie", {"platform": "ghost", "site": GHOST, "cookie": cookie, "user_agent": UA}, key=KEY)
    r = poll(r.get("attempt_id"), KEY, TERMINAL)
    assert r.get("state") == "completed_success", r
    return r.get("account_id")

def add_members(cookie, tag, n):
    """Adds n members at the same time, so that many are made within one second, and returns those that Ghost has."""
    def one(i):
        try:
            return ghost("POST", "/members/", {"members": [{"email": f"{tag}-{i}@example.com"}]}, cookie)
        except OSError:
            return None
    with __import__("concurrent.futures").futures.ThreadPoolExecutor(10) as pool:
        list(pool.map(one, range(n)))
    return members(cookie, tag)

def members(cookie, tag):
    """The members with a tag, and when they were made, once Ghost answers."""
    def listed():
        try:
            r = ghost("GET", f"/members/?limit=100&filter=email:~'{tag}-'", cookie=cookie)
        except OSError:
            return None
        return (r.get("members"),) if r.status == 200 else None
    return {m["email"]: m["created_at"] for m in until(listed, 60, 0.5)[0]}

def signups(acc, tag):
    """How often each member with the tag is in the account's log as memberCreated."""
    count, after = collections.Counter(), ""
    while True:
        r = call("GET", f"/v1/accounts/{acc}/events?limit=100&events=memberCreated&after={after}", key=KEY, headers={"Accept": "application/json"})
        for e in r.get("events") or []:
            mail = json.dumps(e["data"])
            for found in re.findall(tag + r"-\d+@example\.com", mail)[:1]:
                count[found] += 1
        if not r.get("events"):
            return count
        after = r.get("nextCursor")

def exactly_once(acc, what, tag, made):
    got = until(lambda: (lambda c: c if set(c) >= set(made) else None)(signups(acc, tag)), 180, 2) or signups(acc, tag)
    lost, doubled = set(made) - set(got), {m for m, n in got.items() if n > 1}
    seconds = collections.Counter(made.values())
    check(f"{what}: {len(made)} members, up to {max(seconds.values() or [0])} in one second: 0 lost, 0 doubled", not lost and not doubled, (sorted(lost)[:5], sorted(doubled)[:5]))

def state(acc):
    return call("GET", f"/v1/accounts/{acc}", key=KEY).get("account", "state")

def calls(acc, n):
    """Makes n calls and returns their outcomes: ok, or the problem's code."""
    out = collections.Counter()
    for _ in range(n):
        try:
            r = sdk(KEY, acc, "members.list", {"limit": 1})
        except OSError as e:
            out[f"broken connection: {e}"] += 1
            continue
        code = "ok" if r.status == 200 else r.get("code") or f"{r.status} without a code"
        out[code] += 1
        if code in ("quota-exceeded", "upstream/unavailable"):
            time.sleep(min(r.get("retryAfterSec") or 1, 5))
    return out

def catalogued(what, out):
    check(f"{what}: every error is a catalogued problem: {dict(out)}", all(c == "ok" or c in CODES for c in out), out)

def run():
    cookie = session()
    acc = connect(cookie)
    until(lambda: state(acc) == "active", 60, 1)
    check("the account is active", state(acc) == "active", state(acc))
    tag = "tie" + uuid.uuid4().hex[:6]
    exactly_once(acc, "ties", tag, add_members(cookie, tag, 50))

    out = collections.Counter()
    caller = threading.Thread(target=lambda: out.update(calls(acc, 200)))
    caller.start()
    tag = "kill" + uuid.uuid4().hex[:6]
    for i in range(2):
        time.sleep(2)
        adding = threading.Thread(target=add_members, args=(cookie, tag + str(i), 20))
        adding.start()
        until(lambda: len(members(cookie, tag + str(i))) >= 3, 30, 0.05)
        os.kill(pid(), signal.SIGKILL)
        time.sleep(3)
        start_ghost()
        adding.join()
    add_members(cookie, tag + "9", 30)
    caller.join()
    catalogued("Ghost killed twice during 200 calls", out)
    for i in ("0", "1", "9"):
        exactly_once(acc, f"killed, batch {i}", tag + i, members(cookie, tag + i))
    until(lambda: state(acc) == "active", 120, 1)
    check("the account is active again", state(acc) == "active", state(acc))

    tag = "slow" + uuid.uuid4().hex[:6]
    stopped = threading.Event()
    def stutter():
        while not stopped.is_set():
            os.kill(pid(), signal.SIGSTOP)
            time.sleep(5)
            os.kill(pid(), signal.SIGCONT)
            time.sleep(0.5)
    slow = threading.Thread(target=stutter)
    slow.start()
    made = add_members(cookie, tag, 20)
    out = calls(acc, 10)
    stopped.set(); slow.join()
    catalogued("answers delayed by 5 s", out)
    check("and they all succeed", out["ok"] == 10, out)
    exactly_once(acc, "delayed", tag, made)

    ghost("DELETE", "/session/", cookie=cookie)
    until(lambda: state(acc) == "reconnect_required", 90, 1)
    check("its session ended: reconnect_required", state(acc) == "reconnect_required", state(acc))
    catalogued("calls without a session", calls(acc, 3))
    cookie = session()
    tag = "away" + uuid.uuid4().hex[:6]
    made = add_members(cookie, tag, 20)
    check("it reconnects as the same account", connect(cookie) == acc)
    exactly_once(acc, "while it was disconnected", tag, made)
    call("DELETE", f"/v1/accounts/{acc}", key=KEY)

if not (GHOST and KEY):
    check("a system started with GHOST=1 make up", False, "GHOST_URL or STAGEDOOR_LIVE_API_KEY is not in .dev/env")
else:
    guarded(run)
finish()
