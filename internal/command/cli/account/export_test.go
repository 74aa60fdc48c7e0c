package account

import stagedoor "github.com/stagedoor/stagedoor/client/go"

// ParseSession exports parseSession to tests.
func ParseSession(text string) (cookies []stagedoor.Cookie, cookie string, headers map[string]string, agent string) {
	s := parseSession(text)
	return s.cookies, s.cookie, s.headers, s.userAgent
}
