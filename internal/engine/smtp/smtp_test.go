package smtp_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/engine/smtp"
	"github.com/stagedoor/stagedoor/internal/platform/egress"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testmail"
)

var sample = smtp.Mail{
	ID: "mail_1", To: "ada@acme.test", Subject: "Añade tu cuenta\r\nBcc: eve@acme.test", Text: "Hola\n", HTML: "<p>Hola</p>\n",
	Unsubscribe: "https://stagedoor.test/unsubscribe/" + strings.Repeat("x", 90), At: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
}

// client returns a client of a server, as a node has it.
func client(t *testing.T, url secret.String, roots *x509.CertPool) *smtp.Client {
	t.Helper()
	s, err := smtp.Parse(url)
	must.OK(t, err)
	return smtp.New(smtp.Deps{Settings: s, Dial: egress.DialDirect(s.Address(), s.Implicit, roots), Roots: roots})
}

func authority(t *testing.T) (*tls.Config, *x509.CertPool) {
	t.Helper()
	a := testenv.NewAuthority(t)
	cert, err := tls.LoadX509KeyPair(a.Issue("mail"))
	must.OK(t, err)
	text, err := os.ReadFile(a.CAFile)
	must.OK(t, err)
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		t.Fatal("the authority has no certificate")
	}
	return &tls.Config{Certificates: []tls.Certificate{cert}}, roots
}

// A mail arrives with both forms and its headers, over TLS from the first byte, after STARTTLS and without TLS. A subject
// adds no header.
func TestAMailArrives(t *testing.T) {
	t.Parallel()
	config, roots := authority(t)
	for name, setup := range map[string]testmail.Setup{
		"plain":    {},
		"starttls": {TLS: config, User: "stagedoor", Password: "p@ss/word"},
		"implicit": {TLS: config, Implicit: true, User: "stagedoor", Password: "p@ss/word"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := testmail.New(t, setup)
			must.OK(t, client(t, server.URL, roots).Send(t.Context(), sample))
			got := server.Await(1)[0]
			if got.Envelope != sample.To || got.Subject != "Añade tu cuenta Bcc: eve@acme.test" || strings.TrimSpace(got.Text) != "Hola" || strings.TrimSpace(got.HTML) != "<p>Hola</p>" {
				t.Errorf("got %+v", got)
			}
			for header, want := range map[string]string{
				"From": `"Stagedoor" <no-reply@stagedoor.test>`, "To": "<ada@acme.test>", "Bcc": "", "Message-Id": "<mail_1@stagedoor.test>",
				"Date": "Sun, 01 Mar 2026 12:00:00 +0000", "Auto-Submitted": "auto-generated",
				"List-Unsubscribe": "<" + sample.Unsubscribe + ">", "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
			} {
				if text := strings.Join(strings.Fields(got.Header.Get(header)), " "); text != want {
					t.Errorf("%s is %q, want %q", header, text, want)
				}
			}
		})
	}
}

// Without insecure in the address, a mail is sent only to a server with TLS and a certificate that the authorities have
// signed.
func TestAMailIsNotSentUnencrypted(t *testing.T) {
	t.Parallel()
	config, _ := authority(t)
	_, others := authority(t)
	plain := testmail.New(t, testmail.Setup{})
	demanding := secret.New(strings.Replace(plain.URL.Reveal(), "smtp+insecure", "smtp", 1))
	if err := client(t, demanding, others).Send(t.Context(), sample); err == nil || len(plain.Mails()) != 0 {
		t.Errorf("a server without TLS got a mail: %v", err)
	}
	for _, implicit := range []bool{false, true} {
		foreign := testmail.New(t, testmail.Setup{TLS: config, Implicit: implicit})
		if err := client(t, foreign.URL, others).Send(t.Context(), sample); err == nil || len(foreign.Mails()) != 0 {
			t.Errorf("a server with a foreign certificate got a mail: %v", err)
		}
	}
}

// The error says whether another try can succeed, and never quotes the server.
func TestAFailureSaysWhetherToTryAgain(t *testing.T) {
	t.Parallel()
	server := testmail.New(t, testmail.Setup{})
	c := client(t, server.URL, nil)
	for code, final := range map[int]bool{550: true, 451: false} {
		server.Refuse(code)
		err := c.Send(t.Context(), sample)
		if _, refused := errors.AsType[*smtp.RefusedError](err); err == nil || refused != final || strings.Contains(err.Error(), "ada@") {
			t.Errorf("after %d: %v", code, err)
		}
	}
	bad := sample
	bad.To = "ada@acme.test\r\nRCPT TO:<eve@acme.test>"
	if _, refused := errors.AsType[*smtp.RefusedError](c.Send(t.Context(), bad)); !refused {
		t.Error("an address with a line break is not refused")
	}
	config, roots := authority(t)
	strict := testmail.New(t, testmail.Setup{TLS: config, User: "stagedoor", Password: "right"})
	wrong := secret.New(strings.Replace(strict.URL.Reveal(), "right", "wrong", 1))
	err := client(t, wrong, roots).Send(t.Context(), sample)
	if _, refused := errors.AsType[*smtp.RefusedError](err); err == nil || refused {
		t.Errorf("with a wrong password: %v", err)
	}
	broken := smtp.New(smtp.Deps{Dial: func(context.Context) (net.Conn, error) { return nil, errors.New("no route") }, Settings: smtp.Settings{Host: "mail.test", Port: 25}})
	if _, refused := errors.AsType[*smtp.RefusedError](broken.Send(t.Context(), sample)); refused {
		t.Error("a mail is given up because the server cannot be reached")
	}
}

func TestAddressesOfServers(t *testing.T) {
	t.Parallel()
	const from = "?from=Stagedoor+<no-reply@acme.test>"
	for text, want := range map[string]string{
		"smtp://u:p@mail.acme.test" + from:      "mail.acme.test:587",
		"smtps://u:p@mail.acme.test" + from:     "mail.acme.test:465",
		"smtp+insecure://127.0.0.1:1025" + from: "127.0.0.1:1025",
		"smtp://mail.acme.test":                 "",
		"smtp://mail.acme.test?from=nobody":     "",
		"smtp+insecure://u:p@127.0.0.1" + from:  "",
		"smtp://u@mail.acme.test" + from:        "",
		"smtp://mail.acme.test:99999" + from:    "",
		"smtp://mail.acme.test/path" + from:     "",
		"https://mail.acme.test" + from:         "",
		"smtp://mail.acme.test" + from + "&x=1": "",
		"smtp://" + from:                        "",
		"smtp://u:s3cret@mail.acme.test:port":   "",
	} {
		got, err := smtp.Parse(secret.New(text))
		if want == "" {
			if err == nil || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("%s: %v", text, err)
			}
			continue
		}
		if err != nil || got.Address() != want || got.From.Address != "no-reply@acme.test" {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
}
