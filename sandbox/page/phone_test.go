package page_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/sandbox/world"
)

const (
	device = "device-1"
	chrome = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0 Safari/537.36"
)

type qr struct{ id, secret, path string }

func (s *site) openQR(agent string) qr {
	s.Helper()
	_, got := s.api("POST", "/auth/qr", nil, map[string]string{"X-Device": device, "User-Agent": agent})
	shown, _ := got["qr"].(map[string]any)
	return qr{shown["id"].(string), shown["poll_secret"].(string), strings.TrimPrefix(shown["url"].(string), s.url)}
}

// poll polls a QR sign-in as the device that started it. It returns the status or the name of the refusal.
func (s *site) poll(q qr) (said string, user any) {
	s.Helper()
	_, got := s.api("GET", "/auth/qr/"+q.id, nil, map[string]string{"X-Device": device, "X-Qr-Secret": q.secret})
	if refusal, ok := got["error"].(map[string]any); ok {
		return refusal["name"].(string), nil
	}
	return got["qr"].(map[string]any)["status"].(string), got["user"]
}

func TestAPhoneScansAndApproves(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	q := s.openQR(chrome)
	if head := s.send("HEAD", q.path, nil, nil); head.status != http.StatusOK {
		t.Fatalf("HEAD: %d", head.status)
	}
	if said, _ := s.poll(q); said != "pending" {
		t.Fatalf("%s before the phone opened the page", said)
	}
	proposed := "mobile+" + strings.ToLower(q.id)
	s.wants(s.get(q.path), http.StatusOK, "Approve this sign-in?", "Chrome on Linux", device, q.id[:4]+" "+q.id[4:8], strings.ReplaceAll(proposed, "+", "&#43;"))
	if said, _ := s.poll(q); said != "scanned" {
		t.Fatalf("%s after the phone opened the page", said)
	}
	s.wants(s.submit(q.path, url.Values{"who": {"proposed"}, "answer": {"approve"}}), http.StatusOK, "Approved", strings.ToLower(q.id))
	said, user := s.poll(q)
	if said != "accepted" || user == nil {
		t.Fatalf("%s, user %v after the approval", said, user)
	}
	if len(s.world.Sessions(proposed+"@"+world.Domain)) != 1 {
		t.Fatal("the session does not belong to the proposed login")
	}
	s.wants(s.get(q.path), http.StatusOK, "Approved")
	s.wants(s.submit(q.path, url.Values{"answer": {"deny"}}), http.StatusOK, "Approved")
}

func TestAPhoneChoosesWhoSignsIn(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	q := s.openQR(chrome)
	for _, wrong := range []string{"", "nobody@example.com", `"><script>alert(1)</script>`} {
		a := s.submit(q.path, url.Values{"who": {"other"}, "login": {wrong}, "answer": {"approve"}})
		s.wants(a, http.StatusUnprocessableEntity, "looks like ok@sandbox.test", `aria-invalid="true"`)
		if strings.Contains(a.text, "<script>") {
			t.Fatal("the input was not escaped")
		}
	}
	s.wants(s.submit(q.path, url.Values{"who": {"other"}, "login": {" OK+7@sandbox.test "}, "answer": {"approve"}}), http.StatusOK, "Approved", "ok&#43;7@sandbox.test")
	if said, _ := s.poll(q); said != "accepted" {
		t.Fatal(said)
	}
}

func TestAPhoneDenies(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	q := s.openQR(chrome)
	s.wants(s.submit(q.path, url.Values{"who": {"proposed"}, "answer": {"deny"}}), http.StatusOK, "Denied")
	if said, _ := s.poll(q); said != "qr_denied" {
		t.Fatal(said)
	}
	s.wants(s.submit(q.path, url.Values{"answer": {"approve"}}), http.StatusOK, "Denied")
}

func TestAnAnswerIsOneOfTwo(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	q := s.openQR(chrome)
	s.wants(s.submit(q.path, url.Values{"answer": {"maybe"}}), http.StatusUnprocessableEntity, "The answer was not accepted")
	if said, _ := s.poll(q); said != "pending" {
		t.Fatal(said)
	}
}

func TestAnOldPictureHasExpiredAndANewOneHasNot(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	q := s.openQR(chrome)
	s.advance(time.Minute)
	if head := s.send("HEAD", q.path, nil, nil); head.status != http.StatusOK { // HEAD does not scan it
		t.Fatalf("a picture is old after a minute: %d", head.status)
	}
	s.advance(time.Minute)
	s.wants(s.get(q.path), http.StatusGone, "this one is old")
	s.wants(s.submit(q.path, url.Values{"answer": {"approve"}}), http.StatusGone, "this one is old")
	if said, _ := s.poll(q); said != "pending" {
		t.Fatalf("an old QR code changed the status to %s", said)
	}
	now := strings.Replace(q.path, q.id+".0", q.id+".2", 1)
	s.wants(s.get(strings.Replace(q.path, q.id+".0", q.id+".3", 1)), http.StatusGone)
	s.wants(s.get(now), http.StatusOK, "Approve this sign-in?")
	s.advance(5 * time.Minute)
	s.wants(s.get(now), http.StatusOK, "Approve this sign-in?")
	s.advance(4 * time.Minute)
	s.wants(s.get(now), http.StatusGone, "not answered in time")
	s.wants(s.submit(now, url.Values{"answer": {"approve"}}), http.StatusGone, "not answered in time")
}

func TestSignInsThatEndedLongAgoAreSwept(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	kept := func() (n int) {
		err := s.world.Kept("qr", func(string, json.RawMessage) error { n++; return nil })
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	s.openQR(chrome)
	s.openQR(chrome)
	s.advance(30 * time.Minute)
	s.openQR(chrome)
	if n := kept(); n != 3 {
		t.Fatalf("%d sign-ins are kept, want 3: recently ended ones must stay", n)
	}
	s.advance(time.Hour)
	s.openQR(chrome)
	if n := kept(); n != 2 {
		t.Fatalf("%d sign-ins are kept, want only the last 2", n)
	}
}

func TestAnAddressThatWasMadeUpIsNoSignIn(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	q := s.openQR(chrome)
	for _, path := range []string{"/qr/none", "/qr/" + q.id, "/qr/" + q.id + ".0", "/qr/" + q.id + ".0AAAAAAAAAA", "/qr/" + q.id + ".x" + q.path[len(q.path)-10:]} {
		s.wants(s.get(path), http.StatusGone, "has no sign-in for this URL")
		s.wants(s.submit(path, url.Values{"answer": {"approve"}}), http.StatusGone, "has no sign-in for this URL")
	}
	if said, _ := s.poll(q); said != "pending" {
		t.Fatal(said)
	}
}

func TestAFormOfAnotherSiteAnswersNothing(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	q, check := s.openQR(chrome), s.openSelfie()
	for path, form := range map[string]string{q.path: "answer=deny", check.path: "do=take"} {
		for name, value := range map[string]string{"Origin": "http://other.test", "Sec-Fetch-Site": "cross-site"} {
			a := s.send("POST", path, strings.NewReader(form), map[string]string{"Content-Type": "application/x-www-form-urlencoded", name: value})
			if a.status != http.StatusForbidden {
				t.Errorf("%s with %s: %d", path, name, a.status)
			}
		}
	}
	if said, _ := s.poll(q); said != "pending" {
		t.Error(said)
	}
	if name := s.check(check); name != "verification_required" {
		t.Error(name)
	}
}

func TestWhatADeviceSaysOfItselfStaysText(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	a := s.get(s.openQR(`<img src=x onerror=alert(1)>`).path)
	s.wants(a, http.StatusOK, "&lt;img src=x")
	if strings.Contains(a.text, "<img") {
		t.Fatal("the user agent was not escaped")
	}
}

// selfie is a sign-in that waits for a selfie.
type selfie struct{ token, path string }

func (s *site) openSelfie() selfie {
	s.Helper()
	_, got := s.api("POST", "/auth/login", map[string]string{"email": "face@sandbox.test", "password": "good"}, map[string]string{"X-Device": device})
	asked := got["error"].(map[string]any)["challenge"].(map[string]any)
	return selfie{asked["token"].(string), strings.TrimPrefix(asked["page_url"].(string), s.url)}
}

// check polls the challenge as the device that signs in. It returns the name of the refusal, or "in".
func (s *site) check(c selfie) string {
	s.Helper()
	_, got := s.api("GET", "/auth/challenges/"+c.token, nil, map[string]string{"X-Device": device})
	if refusal, ok := got["error"].(map[string]any); ok {
		return refusal["name"].(string)
	}
	return "in"
}

func TestASelfieLetsOneIn(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	c := s.openSelfie()
	s.wants(s.get(c.path), http.StatusOK, "Take a quick selfie", "face@sandbox.test", "<svg")
	s.wants(s.submit(c.path, url.Values{"do": {"take"}}), http.StatusOK, "Selfie matched")
	s.wants(s.submit(c.path, url.Values{"do": {"look away"}}), http.StatusOK, "Selfie matched")
	if said := s.check(c); said != "in" {
		t.Fatal(said)
	}
	s.wants(s.get(c.path+"?taken=passed"), http.StatusOK, "Selfie matched")
	s.wants(s.get(c.path), http.StatusGone, "This check has ended")
}

func TestLookingAwayFails(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	c := s.openSelfie()
	s.wants(s.submit(c.path, url.Values{"do": {"look away"}}), http.StatusOK, "Selfie did not match")
	if said := s.check(c); said != "selfie_rejected" {
		t.Fatal(said)
	}
	s.wants(s.get(c.path), http.StatusOK, "Selfie did not match")
}

func TestASelfieCheckEnds(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	c := s.openSelfie()
	s.wants(s.submit(c.path, url.Values{"do": {"smile"}}), http.StatusUnprocessableEntity, "The field do must be")
	s.advance(11 * time.Minute)
	s.wants(s.get(c.path), http.StatusGone, "This check has ended")
	s.wants(s.submit(c.path, url.Values{"do": {"take"}}), http.StatusGone, "This check has ended")
	s.wants(s.get("/verify/none"), http.StatusGone, "This check has ended")
}
