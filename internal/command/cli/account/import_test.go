package account_test

import (
	"testing"

	"github.com/stagedoor/stagedoor/internal/command/cli/account"
)

func TestParseSession(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text, cookie, agent, device string
		cookies                     int
	}{
		"value alone":     {text: "auth_id=1; sess=2", cookie: "auth_id=1; sess=2"},
		"header":          {text: "Cookie: auth_id=1; sess=a:b==\n", cookie: "auth_id=1; sess=a:b=="},
		"request headers": {text: "accept: */*\r\ncookie: auth_id=1\r\nUser-Agent: Mozilla/5.0 (X11)\r\nX-Device: d1\r\n", cookie: "auth_id=1", agent: "Mozilla/5.0 (X11)", device: "d1"},
		"cookies.txt":     {text: "# Netscape HTTP Cookie File\n#HttpOnly_.platform.test\tTRUE\t/\tTRUE\t1794794038\tsess\t2\n.platform.test\tTRUE\t/\tFALSE\t0\tauth_id\t1\n", cookies: 2},
		"export":          {text: `[{"name":"sess","value":"2","hostOnly":true},{"name":"auth_id","value":"1"}]`, cookies: 2},
		"whole export":    {text: `{"url":"https://platform.test","cookies":[{"name":"sess","value":"2"}]}`, cookies: 1},
	} {
		cookies, cookie, headers, agent := account.ParseSession(c.text)
		if len(cookies) != c.cookies || cookie != c.cookie || agent != c.agent || headers["x-device"] != c.device {
			t.Errorf("%s: got %v %q %v %q", name, cookies, cookie, headers, agent)
		}
	}
}

// FuzzParseSession checks that no input makes parseSession panic.
func FuzzParseSession(f *testing.F) {
	for _, text := range []string{"a=b", "cookie: a=b\nuser-agent: x", "#HttpOnly_a\tTRUE\t/\tTRUE\t1\tb\tc", `[{"name":1}]`, "{", ":\n:"} {
		f.Add(text)
	}
	f.Fuzz(func(_ *testing.T, text string) { account.ParseSession(text) })
}
