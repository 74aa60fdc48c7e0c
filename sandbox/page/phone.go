package page

import (
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/sandbox/auth"
	"github.com/stagedoor/stagedoor/sandbox/wire"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

// States of the phone's pages, in addition to those of the sign-in.
const (
	stateStale = "stale" // an old QR code was scanned
	stateGone  = "gone"  // the sign-in does not exist
)

// mostKnown limits how many logins the phone suggests.
const mostKnown = 50

// asks is the data of the page at /qr/{token}.
type asks struct {
	auth.Asked
	State   string
	Number  string
	Browser string
	Until   string
	Known   []string
	Chosen  string // the login that was entered, if it is not valid
	Fault   string
}

func (p *Page) openQR(w http.ResponseWriter, r *http.Request) {
	resolve := p.deps.Auth.Scan
	if r.Method == http.MethodHead || r.Header.Get("Sec-Purpose") != "" {
		resolve = p.deps.Auth.Asked // a preview, not a scan
	}
	asked, err := resolve(r.PathValue("token"))
	p.showQR(w, r, asked, err, "", "")
}

func (p *Page) answerQR(w http.ResponseWriter, r *http.Request) {
	asked, err := p.deps.Auth.Asked(r.PathValue("token"))
	if err != nil || asked.Stale || !asked.Waits() {
		p.showQR(w, r, asked, err, "", "")
		return
	}
	login := strings.ToLower(strings.TrimSpace(r.PostFormValue("login")))
	if r.PostFormValue("who") != "other" {
		login = ""
	} else if _, err := world.Persona(login); err != nil {
		p.showQR(w, r, asked, nil, login, "A sandbox login looks like ok@"+world.Domain+".")
		return
	}
	if _, err := p.deps.Auth.AnswerQR(asked.ID, r.PostFormValue("answer"), login); err != nil && !refused(err) {
		p.showQR(w, r, asked, nil, login, "The answer was not accepted: "+err.Error()+".")
		return
	}
	// The page shows the result, even if the sign-in was answered elsewhere.
	http.Redirect(w, r, r.URL.EscapedPath(), http.StatusSeeOther)
}

func refused(err error) bool {
	_, ok := errors.AsType[*wire.Refusal](err)
	return ok
}

func (p *Page) showQR(w http.ResponseWriter, r *http.Request, asked auth.Asked, err error, chosen, fault string) {
	view := asks{Asked: asked, State: asked.Status, Chosen: chosen, Fault: fault}
	status := http.StatusOK
	switch {
	case refused(err):
		view.State, status = stateGone, http.StatusGone
	case err != nil:
		p.broken(w, r, err)
		return
	case asked.Stale:
		view.State, status = stateStale, http.StatusGone
	case asked.Status == "expired":
		status = http.StatusGone
	case asked.Waits():
		if fault != "" {
			status = http.StatusUnprocessableEntity
		}
		known, err := p.deps.World.Logins()
		if err != nil {
			p.broken(w, r, err)
			return
		}
		view.State, view.Known = "asks", known[:min(len(known), mostKnown)]
		view.Number = asked.ID[:4] + " " + asked.ID[4:8]
		view.Browser, view.Until = browser(asked.Agent), clock(asked.Ends)
	}
	p.show(w, status, "qr.html", view)
}

// selfie is the data of the page at /verify/{token}.
type selfie struct {
	State string
	Login string
	Until string
}

func (p *Page) openSelfie(w http.ResponseWriter, r *http.Request) {
	check, err := p.deps.Auth.FindSelfie(r.PathValue("token"))
	view := selfie{State: check.Selfie, Login: check.Login, Until: clock(check.Ends)}
	status := http.StatusOK
	switch taken := r.URL.Query().Get("taken"); {
	case refused(err) && (taken == "passed" || taken == "rejected"):
		// The sign-in has already used the selfie.
		view.State = taken
	case refused(err):
		view.State, status = stateGone, http.StatusGone
	case err != nil:
		p.broken(w, r, err)
		return
	case check.Selfie == "ended":
		status = http.StatusGone
	}
	p.show(w, status, "verify.html", view)
}

func (p *Page) takeSelfie(w http.ResponseWriter, r *http.Request) {
	taken := map[string]string{"take": "passed", "look away": "rejected"}[r.PostFormValue("do")]
	if taken == "" {
		http.Error(w, `The field do must be "take" or "look away".`, http.StatusUnprocessableEntity)
		return
	}
	err := p.deps.Auth.TakeSelfie(r.PathValue("token"), taken == "passed")
	target := url.URL{Path: r.URL.Path}
	switch {
	case err == nil:
		target.RawQuery = "taken=" + taken
	case !refused(err):
		p.broken(w, r, err)
		return
	}
	http.Redirect(w, r, target.String(), http.StatusSeeOther)
}

// broken logs an error of the state and answers 500.
func (p *Page) broken(w http.ResponseWriter, r *http.Request, err error) {
	p.deps.Log.ErrorContext(r.Context(), "page failed", slog.String("error", err.Error()))
	http.Error(w, "The sandbox could not read its state. Try again, or check its log.", http.StatusInternalServerError)
}

// clock formats the time of day of an RFC 3339 time in UTC, which is the platform's clock.
func clock(stamp string) string {
	t, err := time.Parse(time.RFC3339, stamp)
	if err != nil {
		return ""
	}
	return t.UTC().Format("15:04") + " UTC"
}

// browser returns a readable name for a user agent, such as "Chrome on Linux".
func browser(agent string) string {
	name := first(agent, "Edg/=Edge", "Firefox/=Firefox", "Chrome/=Chrome", "Safari/=Safari")
	system := first(agent, "Windows=Windows", "Android=Android", "iPhone=iPhone", "iPad=iPad", "Mac OS=macOS", "Linux=Linux")
	switch {
	case name != "" && system != "":
		return name + " on " + system
	case name != "":
		return name
	case agent == "":
		return "Unknown"
	}
	return strings.SplitN(agent, "/", 2)[0]
}

// first returns the name of the first mark that a text contains. Marks have the form text=name.
func first(text string, marks ...string) string {
	for _, mark := range marks {
		if sign, word, _ := strings.Cut(mark, "="); strings.Contains(text, sign) {
			return word
		}
	}
	return ""
}
