package mail

import (
	"embed"
	"fmt"
	html "html/template"
	"strconv"
	"strings"
	text "text/template"
	"time"
)

//go:embed texts/*.tmpl
var textFiles embed.FS

// Locales lists the languages of the mails. The first is the default.
func Locales() []string { return []string{"en", "es"} }

// renderer has the texts of all mails. texts are those of a language.
type renderer struct {
	texts map[string]*text.Template
	plain *text.Template
	html  *html.Template
}

// newRenderer parses the texts, which are part of the program.
func newRenderer() renderer {
	r := renderer{
		texts: map[string]*text.Template{}, plain: text.Must(text.ParseFS(textFiles, "texts/layout.txt.tmpl")),
		html: html.Must(html.ParseFS(textFiles, "texts/layout.html.tmpl")),
	}
	for _, locale := range Locales() {
		r.texts[locale] = text.Must(text.New(locale).Option("missingkey=error").ParseFS(textFiles, "texts/"+locale+".tmpl"))
	}
	return r
}

// Brief is a notice in a few words, for a message.
type Brief struct {
	Subject, Button, Link string
	Items                 []string
}

// Brief writes a notice as a message. now is the time of the notice.
func (o *Outbox) Brief(m Message, now time.Time) (Brief, error) {
	page, err := o.texts.write(&m, now)
	return Brief{page.Subject, page.Button, page.Link, page.Items}, err
}

// letter is a rendered mail.
type letter struct{ Subject, Text, HTML string }

// layout is what the two layouts show.
type layout struct {
	Locale, Subject               string
	Paragraphs, Items             []string
	Button, Link, Footer          string
	Unsubscribe, UnsubscribeLabel string
}

// render writes a mail in its language, in both forms.
func (r renderer) render(m *Message, now time.Time) (letter, error) {
	page, err := r.write(m, now)
	var plain, rich strings.Builder
	if err == nil {
		err = r.plain.Execute(&plain, page)
	}
	if err == nil {
		err = r.html.Execute(&rich, page)
	}
	return letter{page.Subject, plain.String(), rich.String()}, err
}

// write writes the parts of a mail in its language.
func (r renderer) write(m *Message, now time.Time) (layout, error) {
	texts, ok := r.texts[m.Locale]
	if !ok {
		texts = r.texts[Locales()[0]]
	}
	var failed error
	run := func(name string, data any) string {
		var b strings.Builder
		if err := texts.ExecuteTemplate(&b, name, data); err != nil && failed == nil {
			failed = fmt.Errorf("write a mail of the kind %s: %w", m.Kind, err)
		}
		return b.String()
	}
	lasting := func(d time.Duration) string { return run(lasts(d)) }
	data := struct {
		Message
		Lasts string
		Count int
	}{*m, lasting(m.ExpiresAt.Sub(now)), len(m.Items) + m.More}
	kind := string(m.Kind)
	page := layout{
		Locale: texts.Name(), Subject: oneLine(run(kind+".subject", data)), Link: m.Link, Button: run(kind+".button", data),
		Unsubscribe: m.Unsubscribe, UnsubscribeLabel: run("unsubscribe", nil),
	}
	for paragraph := range strings.SplitSeq(run(kind+".body", data), "\n\n") {
		page.Paragraphs = append(page.Paragraphs, strings.TrimSpace(paragraph))
	}
	for _, it := range m.Items {
		detail := ""
		if m.Kind == AccountAttention {
			detail = run("attention."+it.Detail, nil)
		}
		page.Items = append(page.Items, oneLine(run("item."+kind, struct {
			Name, Detail, Lasts, Limit string
			Percent                    int
		}{it.Name, detail, lasting(it.Lasts), strconv.FormatInt(it.Limit, 10), it.Percent})))
	}
	if m.More > 0 {
		page.Items = append(page.Items, run("more", m.More))
	}
	footer := kind + ".footer"
	if m.IsNotice() {
		footer = "notice.footer"
	}
	page.Footer = run(footer, data)
	return page, failed
}

// lasts returns the name of a unit and how many of it a duration has, rounded. Durations of less than 2 hours are in
// minutes, and of less than 2 days in hours.
func lasts(d time.Duration) (unit string, n int) {
	switch {
	case d < 2*time.Hour:
		return "minutes", max(2, int(d.Round(time.Minute)/time.Minute))
	case d < 48*time.Hour:
		return "hours", int(d.Round(time.Hour) / time.Hour)
	}
	return "days", int(d.Round(24*time.Hour) / (24 * time.Hour))
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
