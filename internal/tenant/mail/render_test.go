package mail_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/tenant/mail"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func sample(kind mail.Kind, locale string) mail.Message {
	m := mail.Message{
		Kind: kind, To: "ada@acme.test", Locale: locale, ExpiresAt: start.Add(30 * time.Minute), Link: "https://stagedoor.test/s/cst_1?a=1&b=2",
		Org: "Acme <b>", By: "bob@acme.test", Role: "admin", Account: "@luna", Platform: "Sandbox",
	}
	if m.IsNotice() {
		m.Unsubscribe = "https://stagedoor.test/unsubscribe/1"
		m.Items, m.More = []mail.Item{{Name: "the first", Detail: "account.restricted", Lasts: 3 * time.Hour, Percent: 80, Limit: 1000}, {Name: "second", Detail: "account.challenge_required", Lasts: 50 * time.Hour}}, 7
	}
	return m
}

var kinds = []mail.Kind{mail.ConnectLink, mail.Reconnect, mail.Receipt, mail.Invitation, mail.WebhookFailing, mail.AccountAttention, mail.Usage, mail.KeyExpiring}

// Every mail has all its parts in both languages and both forms, and names are escaped in HTML.
func TestEveryMailHasItsPartsInEveryLanguage(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, locale := range mail.Locales() {
		for _, kind := range kinds {
			m := sample(kind, locale)
			subject, text, html, err := mail.Render(m, start)
			must.OK(t, err)
			if seen[text] || subject == "" {
				t.Errorf("%s in %s is not its own: %q", kind, locale, subject)
			}
			seen[text] = true
			for form, content := range map[string]string{"text": text, "html": html} {
				if strings.Contains(content, "no value") || !strings.Contains(content, "stagedoor.test/s/cst_1") {
					t.Errorf("%s in %s as %s has gaps:\n%s", kind, locale, form, content)
				}
				if m.IsNotice() && (!strings.Contains(content, m.Unsubscribe) || !strings.Contains(content, "7")) {
					t.Errorf("%s in %s as %s lacks a part:\n%s", kind, locale, form, content)
				}
			}
			if strings.Contains(html, "<b>") || !strings.Contains(html, `lang="`+locale+`"`) || !strings.Contains(text, m.Link) {
				t.Errorf("%s in %s:\n%s", kind, locale, html)
			}
		}
	}
	english, spanish := mail.TextNames("en"), mail.TextNames("es")
	slices.Sort(english)
	slices.Sort(spanish)
	if len(english) < 40 || !slices.Equal(english, spanish) {
		t.Errorf("the languages have other texts:\n%v\n%v", english, spanish)
	}
}

// A link mail reads as a person would write it.
func TestALinkMail(t *testing.T) {
	t.Parallel()
	m := sample(mail.ConnectLink, "en")
	m.Org = "Northlight"
	subject, text, _, err := mail.Render(m, start)
	must.OK(t, err)
	const want = `Northlight asks you to connect your account on Sandbox. You sign in on a page of our service, and Northlight never sees your password.

The link works for 30 minutes, until one account is connected. If you do not know Northlight, ignore this mail: nothing happens without you.

Connect your account:
https://stagedoor.test/s/cst_1?a=1&b=2

-- 
Northlight entered your address to send you this link. It is for you only: do not forward it.
`
	if subject != "Northlight asks you to connect your account" || text != want {
		t.Errorf("%q\n%s", subject, text)
	}
	m.Locale, m.ExpiresAt = "es", start.Add(7*24*time.Hour)
	if _, text, _, err = mail.Render(m, start); err != nil || !strings.Contains(text, "El enlace funciona durante 7 días,") {
		t.Errorf("%v\n%s", err, text)
	}
}

func TestPausesBetweenTriesGrow(t *testing.T) {
	t.Parallel()
	got := []time.Duration{mail.RetryAfter(0), mail.RetryAfter(1), mail.RetryAfter(2), mail.RetryAfter(9), mail.RetryAfter(10), mail.RetryAfter(200)}
	want := []time.Duration{10 * time.Second, 10 * time.Second, 20 * time.Second, 2560 * time.Second, time.Hour, time.Hour}
	if !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}
