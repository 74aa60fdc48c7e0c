package account

import (
	"bytes"
	"context"
	"encoding/json"
	"strconv"
	"strings"

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

func startCookie(ctx context.Context, f *follower, o connectOptions, body map[string]any) error {
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
	if s.cookies != nil {
		body["cookies"] = s.cookies
	} else {
		body["cookie"] = s.cookie
	}
	if len(s.headers) > 0 {
		body["headers"] = s.headers
	}
	body["user_agent"] = s.userAgent
	return f.start(ctx, "/v1/connect/cookie", body)
}

// session is a pasted browser session. cookies is set for formats that list cookies one by one, cookie for the others.
type session struct {
	cookie    string
	cookies   []map[string]any
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
	s := session{headers: map[string]string{}}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if c := netscape(line); c != nil {
			s.cookies = append(s.cookies, c)
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
			s.headers[name] = value // other headers belong to the browser, not to the session
		}
	}
	return s
}

// parseExport reads a JSON export: a list of cookies, or an object with such a list.
func parseExport(text string) (session, bool) {
	var list []map[string]any
	if json.Unmarshal([]byte(text), &list) != nil {
		var whole struct{ Cookies []map[string]any }
		if json.Unmarshal([]byte(text), &whole) != nil || whole.Cookies == nil {
			return session{}, false
		}
		list = whole.Cookies
	}
	s := session{}
	for _, c := range list {
		kept := map[string]any{}
		for _, name := range []string{"name", "value", "domain", "path", "httpOnly", "secure"} {
			if c[name] != nil {
				kept[name] = c[name]
			}
		}
		s.cookies = append(s.cookies, kept)
	}
	return s, true
}

// netscape parses a line of cookies.txt. It returns nil for any other line.
func netscape(line string) map[string]any {
	line, httpOnly := strings.CutPrefix(line, "#HttpOnly_")
	parts := strings.Split(line, "\t")
	if len(parts) != 7 {
		return nil
	}
	if _, err := strconv.ParseInt(parts[4], 10, 64); err != nil {
		return nil
	}
	return map[string]any{
		"name": parts[5], "value": parts[6], "domain": parts[0], "path": parts[2],
		"secure": strings.EqualFold(parts[3], "true"), "httpOnly": httpOnly,
	}
}
