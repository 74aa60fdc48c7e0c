package mail

import "time"

// Render writes a mail.
func Render(m Message, now time.Time) (subject, text, html string, err error) {
	l, err := newRenderer().render(&m, now)
	return l.Subject, l.Text, l.HTML, err
}

// RetryAfter is retryAfter.
var RetryAfter = retryAfter

// TextNames returns the names of the texts of a language.
func TextNames(locale string) (names []string) {
	for _, one := range newRenderer().texts[locale].Templates() {
		if one.Tree != nil && one.Name() != locale+".tmpl" {
			names = append(names, one.Name())
		}
	}
	return names
}
