package account

// ParseSession is parseSession for tests: how many cookies, the cookie text, the headers and the user agent.
func ParseSession(text string) (cookies []map[string]any, cookie string, headers map[string]string, agent string) {
	s := parseSession(text)
	return s.cookies, s.cookie, s.headers, s.userAgent
}
