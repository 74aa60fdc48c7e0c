"""Connecting by OAuth, against the sandbox's own authorization server (persona oauth@)."""
from lib import *

LOGIN = f"oauth+{uuid.uuid4().hex[:8]}@sandbox.test"

class Browser:
    """A browser with cookies that does not follow redirects by itself."""
    def __init__(self):
        self.cookies = {}
    def go(self, method, url, form=None):
        body = urllib.parse.urlencode(form).encode() if form is not None else None
        h = {"Content-Type": "application/x-www-form-urlencoded"} if form is not None else {}
        host = urllib.parse.urlsplit(url).netloc
        if self.cookies.get(host):
            h["Cookie"] = "; ".join(f"{k}={v}" for k, v in self.cookies[host].items())
        r = call(method, url, body, headers=h)
        for line in r.headers.get_all("Set-Cookie") or []:
            name, _, value = line.split(";")[0].partition("=")
            self.cookies.setdefault(host, {})[name] = value
        r.to = urllib.parse.urljoin(url, r.headers.get("Location") or "")
        return r

def start(key, **more):
    return call("POST", "/v1/connect/login", {"auth_type": "oauth", **more}, key=key)

def agree(browser, page, form):
    sent = browser.go("POST", page, {"do": "authorize"})
    check("our page sends the browser to the platform", sent.status == 303 and sent.to.startswith(SANDBOX + "/oauth/authorize?"), sent)
    check("with PKCE and a state", "code_challenge_method=S256" in sent.to and "state=" in sent.to, sent.to)
    return browser.go("POST", sent.to, form).to

def end(key, attempt):
    return until(lambda: (lambda r: r if str(r.get("state")).startswith("completed_") else None)(call("GET", f"/v1/connect/login/{attempt}?wait=5", key=key)), 60, 0.2)

def tokens():
    return [r["status"] for r in call("GET", "/control/requests?login=" + urllib.parse.quote(LOGIN), base=SANDBOX).get("requests") or [] if r["path"] == "/oauth/token"]

def connects():
    _, k = org()
    r = start(k)
    check("an attempt by OAuth is pending, with our page", r.status == 202 and r.get("state") == "pending" and r.get("next_actions") == ["open_verification_page", "cancel"], r)
    check("email and password are refused", start(k, email=LOGIN, password="good").status == 422)
    page, attempt, b = r.get("verification_page_url"), r.get("attempt_id"), Browser()
    shown = b.go("GET", page)
    check("the page names the platform", shown.status == 200 and b"Continue to Sandbox" in shown.raw, shown)
    back = agree(b, page, {"answer": "allow", "login": LOGIN})
    check("another browser cannot finish it", Browser().go("GET", back).status == 403)
    check("a wrong state cannot either", b.go("GET", back.replace("state=st_", "state=st_0")).status == 404)
    check("the same browser can", b.go("GET", back).to == page)
    done = end(k, attempt)
    account = done and done.get("account_id")
    must("the account is connected", bool(account), done)
    check("a repeated callback shows the attempt", b.go("GET", back).to == page and tokens() == [200], tokens())
    check("its credentials are oauth", call("GET", f"/v1/accounts/{account}", key=k).get("account", "credentials") == "oauth")
    check("it can call", call("GET", f"/v1/accounts/{account}/me/get", key=k).status == 200)
    call("POST", "/control/oauth/expire", {"login": LOGIN}, base=SANDBOX)
    check("it can call after its access token ended", call("GET", f"/v1/accounts/{account}/me/get", key=k).status == 200)
    check("with one refresh", tokens() == [200, 200], tokens())
    call("POST", "/control/sessions/end", {"login": LOGIN}, base=SANDBOX)
    gone = until(lambda: call("GET", f"/v1/accounts/{account}/me/get", key=k).status == 410, 30, 0.3)
    check("a revoked authorisation needs the creator", gone and call("GET", f"/v1/accounts/{account}", key=k).get("account", "state") == "reconnect_required")

def refused():
    _, k = org()
    r, b = start(k), Browser()
    b.go("GET", agree(b, r.get("verification_page_url"), {"answer": "deny"}))
    done = end(k, r.get("attempt_id"))
    check("a creator who refuses ends the attempt", done and done.get("failure", "code") == "cancelled", done)

guarded(connects); guarded(refused)
finish()
