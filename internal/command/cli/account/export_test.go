package account

// ParseSession exports parseSession to tests.
func ParseSession(text string) (cookies []map[string]any, cookie string, headers map[string]string, agent string) {
	s := parseSession(text)
	return s.cookies, s.cookie, s.headers, s.userAgent
}
