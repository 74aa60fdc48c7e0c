package mailbox_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/smtp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stagedoor/stagedoor/sandbox/mailbox"
)

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newMailbox() *mailbox.Mailbox {
	now := func() time.Time { return time.Date(2026, 11, 18, 9, 30, 0, 0, time.FixedZone("", 3600)) }
	return mailbox.New(mailbox.Deps{Now: now, Log: slog.New(slog.DiscardHandler)})
}

// serve runs a mailbox and returns it and its address.
func serve(t *testing.T) (*mailbox.Mailbox, string) {
	t.Helper()
	box := newMailbox()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	ok(t, err)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- box.Serve(ctx, listener) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("a mailbox that is stopped reports %v", err)
		}
	})
	return box, listener.Addr().String()
}

// lines joins lines as SMTP does.
func lines(list ...string) string { return strings.Join(list, "\r\n") + "\r\n" }

// An array of mails is compared by its end, so the order must be that of arrival, also for one address.
func TestMailsToAnAddressAreListedInTheOrderOfTheirArrival(t *testing.T) {
	t.Parallel()
	box, addr := serve(t)
	for i, to := range [][]string{{"maya@example.com"}, {"other@example.com"}, {"other@example.com", "Maya@Example.com"}} {
		body := lines("From: Ghost <ghost@ghost.test>", "To: someone@example.com", fmt.Sprintf("Subject: %06d is your code", i), "", "Hello.", ".", "..", "Bye.")
		ok(t, smtp.SendMail(addr, nil, "bounces@ghost.test", to, []byte(body)))
	}
	subjects := func(list []mailbox.Mail) (out []string) {
		for _, m := range list {
			out = append(out, m.Subject)
		}
		return out
	}
	if got := subjects(box.Mails("")); !slices.Equal(got, []string{"000000 is your code", "000001 is your code", "000002 is your code"}) {
		t.Errorf("all mails: %q", got)
	}
	mails := box.Mails("MAYA@example.com")
	if got := subjects(mails); !slices.Equal(got, []string{"000000 is your code", "000002 is your code"}) {
		t.Fatalf("mails of one address: %q", got)
	}
	m := mails[1]
	if m.From != "Ghost <ghost@ghost.test>" || !slices.Equal(m.To, []string{"other@example.com", "Maya@Example.com"}) || m.Text != lines("Hello.", ".", "..", "Bye.") || m.HTML != "" {
		t.Errorf("%+v", m)
	}
	if m.At.Format(time.RFC3339) != "2026-11-18T08:30:00Z" {
		t.Errorf("the time is %s", m.At)
	}
	if list := box.Mails("empty@example.com"); list == nil || len(list) != 0 {
		t.Errorf("an address without mails has %v", list)
	}
}

// One connection can send several mails, and the recipients of a mail that was given up do not get the next.
func TestAConnectionSendsMailsOneByOne(t *testing.T) {
	t.Parallel()
	box, addr := serve(t)
	c, err := smtp.Dial(addr)
	ok(t, err)
	defer c.Close()
	send := func(to, text string) {
		t.Helper()
		ok(t, c.Mail("ghost@ghost.test"))
		ok(t, c.Rcpt(to))
		w, err := c.Data()
		ok(t, err)
		_, err = fmt.Fprintf(w, "Subject: s\r\n\r\n%s", text)
		ok(t, err)
		ok(t, w.Close())
	}
	send("a@example.com", "one")
	ok(t, c.Mail("ghost@ghost.test"))
	ok(t, c.Rcpt("a@example.com"))
	ok(t, c.Reset())
	send("b@example.com", "two")
	ok(t, c.Quit())
	if a, b := box.Mails("a@example.com"), box.Mails("b@example.com"); len(a) != 1 || len(b) != 1 || b[0].Text != "two\r\n" || b[0].From != "ghost@ghost.test" {
		t.Errorf("%+v %+v", a, b)
	}
}

func TestAMailThatIsTooLargeOrHasTooManyRecipientsIsRefused(t *testing.T) {
	t.Parallel()
	box, addr := serve(t)
	large := "Subject: s\r\n\r\n" + strings.Repeat(strings.Repeat("a", 998)+"\r\n", mailbox.MostMailBytes/1000+1)
	if err := smtp.SendMail(addr, nil, "ghost@ghost.test", []string{"a@example.com"}, []byte(large)); err == nil || !strings.HasPrefix(err.Error(), "552") {
		t.Errorf("a mail of %d bytes: %v", len(large), err)
	}
	many := slices.Repeat([]string{"a@example.com"}, mailbox.MostRecipients+1)
	if err := smtp.SendMail(addr, nil, "ghost@ghost.test", many, []byte("Subject: s\r\n\r\n")); err == nil || !strings.HasPrefix(err.Error(), "452") {
		t.Errorf("a mail to %d recipients: %v", len(many), err)
	}
	if n := len(box.Mails("")); n != 0 {
		t.Errorf("%d mails are kept", n)
	}
}

func TestAFullMailboxDropsItsOldestMails(t *testing.T) {
	t.Parallel()
	box := newMailbox()
	for i := range mailbox.MostMails + 3 {
		mailbox.Add(box, mailbox.Mail{Subject: fmt.Sprint(i)})
	}
	if mails := box.Mails(""); len(mails) != mailbox.MostMails || mails[0].Subject != "3" {
		t.Errorf("%d mails from %s on", len(mails), mails[0].Subject)
	}
	half := strings.Repeat("a", mailbox.MostBytes/2)
	for i := range 4 {
		mailbox.Add(box, mailbox.Mail{Subject: fmt.Sprint("large ", i), HTML: half[:len(half)-10]})
	}
	if mails := box.Mails(""); len(mails) != 2 || mails[0].Subject != "large 2" || mails[1].Subject != "large 3" {
		t.Errorf("%d mails are kept", len(mails))
	}
}

func TestAMailIsDecoded(t *testing.T) {
	t.Parallel()
	alternative := func(inner ...string) string {
		return lines(append([]string{"Subject: s", "Content-Type: multipart/alternative; boundary=X", ""}, inner...)...)
	}
	for name, c := range map[string]struct {
		raw  string
		want mailbox.Mail
	}{
		"no type":        {lines("Subject: s", "", "Hi"), mailbox.Mail{Subject: "s", Text: "Hi\r\n"}},
		"a wrong type":   {lines("Subject: s", "Content-Type: ???", "", "Hi"), mailbox.Mail{Subject: "s", Text: "Hi\r\n"}},
		"only HTML":      {lines("Subject: s", "Content-Type: text/html; charset=utf-8", "", "<b>ü</b>"), mailbox.Mail{Subject: "s", HTML: "<b>ü</b>\r\n"}},
		"encoded words":  {lines("Subject: =?UTF-8?Q?Gr=C3=BC=C3=9Fe?= =?utf-8?B?IPCfkYs=?=", "From: =?iso-8859-1?Q?J=F6rg?= <j@example.com>", "", ""), mailbox.Mail{Subject: "Grüße 👋", From: "Jörg <j@example.com>", Text: "\r\n"}},
		"an odd charset": {lines("Subject: =?klingon?Q?a?=", "", "a\xff"), mailbox.Mail{Subject: "=?klingon?Q?a?=", Text: "a\uFFFD\r\n"}},
		"Latin-1":        {lines("Content-Type: text/plain; charset=ISO-8859-1", "Content-Transfer-Encoding: quoted-printable", "", "Gr=FC=DFe=", "!"), mailbox.Mail{Text: "Grüße!\r\n"}},
		"base64":         {lines("Content-Type: text/plain", "Content-Transfer-Encoding: BASE64", "", "MTIz", "NDU2"), mailbox.Mail{Text: "123456"}},
		"broken base64":  {lines("Content-Transfer-Encoding: base64", "", "MTIzNDU2!!!!"), mailbox.Mail{Text: "123456"}},
		"text and HTML": {
			alternative("--X", "Content-Type: text/plain", "", "Hi", "--X", "Content-Type: text/html", "Content-Transfer-Encoding: base64", "", "PGI+SGk8L2I+", "--X--"),
			mailbox.Mail{Subject: "s", Text: "Hi", HTML: "<b>Hi</b>"},
		},
		"nested, with an attachment": {
			alternative("--X", "Content-Type: text/plain", "Content-Disposition: attachment; filename=a.txt", "", "not this", "--X", "Content-Type: multipart/related; boundary=Y", "",
				"--Y", "Content-Type: text/html", "", "<i>", "--Y", "Content-Type: image/png", "", "png", "--Y--", "--X", "", "Hi", "--X", "", "not this", "--X--"),
			mailbox.Mail{Subject: "s", Text: "Hi", HTML: "<i>"},
		},
		"cut off":      {alternative("--X", "", "Hi", "--X", "Content-Type: text/ht"), mailbox.Mail{Subject: "s", Text: "Hi"}},
		"no boundary":  {lines("Subject: s", "Content-Type: multipart/mixed", "", "--X", "", "Hi"), mailbox.Mail{Subject: "s"}},
		"not a mail":   {"no header", mailbox.Mail{Text: "no header"}},
		"empty":        {"", mailbox.Mail{}},
		"invalid text": {"a\xff", mailbox.Mail{Text: "a\uFFFD"}},
	} {
		got := mailbox.Parse([]byte(c.raw))
		if got.Subject != c.want.Subject || got.From != c.want.From || got.Text != c.want.Text || got.HTML != c.want.HTML {
			t.Errorf("%s:\n got %+q\nwant %+q", name, []string{got.Subject, got.From, got.Text, got.HTML}, []string{c.want.Subject, c.want.From, c.want.Text, c.want.HTML})
		}
	}
}

// Parts in parts in parts must not exhaust the stack.
func TestDeeplyNestedPartsAreNotRead(t *testing.T) {
	t.Parallel()
	var raw strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&raw, "Content-Type: multipart/mixed; boundary=B%d\r\n\r\n--B%d\r\n", i, i)
	}
	raw.WriteString("\r\nHi")
	if got := mailbox.Parse([]byte(raw.String())); got.Text != "" {
		t.Errorf("%q", got.Text)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(lines("Subject: =?UTF-8?Q?Gr=C3=BC?=", "Content-Type: multipart/alternative; boundary=X", "", "--X", "Content-Transfer-Encoding: quoted-printable", "", "a=3Db", "--X", "Content-Type: text/html; charset=iso-8859-1", "", "\xfc", "--X--")))
	f.Add([]byte(lines("Content-Transfer-Encoding: base64", "", "MTIzNDU2")))
	f.Fuzz(func(t *testing.T, raw []byte) {
		m := mailbox.Parse(raw)
		for _, text := range []string{m.Subject, m.From, m.Text, m.HTML} {
			if !utf8.ValidString(text) {
				t.Errorf("%q is not UTF-8", text)
			}
			// A byte of Latin-1 has at most two of UTF-8, and one of no charset at most three.
			if len(text) > 3*len(raw) {
				t.Errorf("%d bytes came from %d", len(text), len(raw))
			}
		}
	})
}
