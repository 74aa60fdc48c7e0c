package account

import (
	"bytes"
	"context"
	"encoding/json"
	"strconv"
	"strings"

	stagedoor "github.com/stagedoor/stagedoor/client/go"
	"github.com/stagedoor/stagedoor/internal/command/cli/core"
)

// readPasted reads standard input to its end, after the invitation if it is a terminal. The hint instead
// is for usage faults.
func readPasted(app *core.App, invitation, instead string) ([]byte, error) {
	if app.StdinTTY {
		if app.NoInput {
			return nil, core.UsageHint(instead, "standard input is required, and --no-input disables prompts")
		}
		app.Out.Say("%s", invitation)
	}
	text, err := app.ReadInput()
	if err != nil {
		return nil, err
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, core.UsageHint(instead, "standard input is empty")
	}
	return text, nil
}

func startCurl(ctx context.Context, f *follower, o connectOptions) error {
	text, err := readPasted(f.App, "Paste the cURL command, then press Ctrl-D:",
		"Pipe the command to standard input: pbpaste | stagedoor connect --method curl")
	if err != nil {
		return err
	}
	return f.start(func(keep stagedoor.CallOption) (*stagedoor.Attempt, error) {
		found, err := f.API().Connect.Curl(ctx, stagedoor.ConnectCurlParams{
			AccountID: o.account, Platform: o.platform, Site: o.site, Label: o.label, ProxyCountry: o.region,
			ReferenceID: o.reference, Supersede: o.supersede, Curl: string(text),
		}, keep)
		if err != nil {
			return nil, err
		}
		return &found.Attempt, nil
	})
}

func startCookie(ctx context.Context, f *follower, o connectOptions) error {
	text, err := readPasted(f.App, "Paste the cookies or all request headers, then press Ctrl-D:",
		"Pipe them to standard input: stagedoor connect --method cookie < headers.txt")
	if err != nil {
		return err
	}
	if strings.HasPrefix(strings.TrimSpace(string(text)), "curl") {
		return core.UsageHint("Use --method curl.", "standard input is a cURL command")
	}
	s := parseSession(string(text))
	if o.userAgent != "" {
		s.userAgent = o.userAgent
	}
	if s.userAgent == "" {
		return core.UsageHint("Add --user-agent, or pipe all request headers.",
			"the browser's user agent is required with its cookies")
	}
	return f.start(func(keep stagedoor.CallOption) (*stagedoor.Attempt, error) {
		return f.API().Connect.Cookie(ctx, stagedoor.ConnectCookieParams{
			AccountID: o.account, Platform: o.platform, Site: o.site, Label: o.label, ProxyCountry: o.region,
			ReferenceID: o.reference, Supersede: o.supersede, Cookie: s.cookie, Cookies: s.cookies, Headers: s.headers, UserAgent: s.userAgent,
		}, keep)
	})
}

// session is a pasted browser session. cookies is set for formats that list cookies one by one, cookie for the others.
type session struct {
	cookie    string
	cookies   []stagedoor.Cookie
	headers   map[string]string
	userAgent string
}

// parseSession accepts the formats of browsers and their extensions: request headers, a Cookie header or its value
// alone, cookies.txt, and a JSON export. It never fails; the server rejects an incomplete session.
func parseSession(text string) session {
	text = strings.TrimSpace(text)
	if s, ok := parseExport(text); ok {
		return s
	}
	s := session{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if c := netscape(line); c != nil {
			s.cookies = append(s.cookies, *c)
			continue
		}
		name, value, isHeader := strings.Cut(line, ":")
		name, value = strings.ToLower(strings.TrimSpace(name)), strings.TrimSpace(value)
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case !isHeader || strings.ContainsAny(name, "=; "):
			s.cookie = strings.TrimSpace(s.cookie + " " + line)
		case name == "cookie":
			s.cookie = value
		case name == "user-agent":
			s.userAgent = value
		case strings.HasPrefix(name, "x-"):
			if s.headers == nil {
				s.headers = map[string]string{}
			}
			s.headers[name] = value // other headers belong to the browser, not to the session
		}
	}
	if s.cookies != nil {
		s.cookie = ""
	}
	return s
}

// parseExport reads a JSON export: a list of cookies, or an object with such a list.
func parseExport(text string) (session, bool) {
	var list []stagedoor.Cookie
	if json.Unmarshal([]byte(text), &list) != nil {
		var whole struct{ Cookies []stagedoor.Cookie }
		if json.Unmarshal([]byte(text), &whole) != nil || whole.Cookies == nil {
			return session{}, false
		}
		list = whole.Cookies
	}
	for i := range list {
		list[i].Expires, list[i].HostOnly = nil, nil // exports write them in forms that the API does not accept
	}
	return session{cookies: list}, true
}

// netscape parses a line of cookies.txt. It returns nil for any other line.
func netscape(line string) *stagedoor.Cookie {
	line, httpOnly := strings.CutPrefix(line, "#HttpOnly_")
	parts := strings.Split(line, "\t")
	if len(parts) != 7 {
		return nil
	}
	if _, err := strconv.ParseInt(parts[4], 10, 64); err != nil {
		return nil
	}
	secure := strings.EqualFold(parts[3], "true")
	return &stagedoor.Cookie{
		Name: parts[5], Value: parts[6], Domain: parts[0], Path: parts[2], Secure: &secure, HttpOnly: &httpOnly,
	}
}
