// Package mailbox receives mail over SMTP and keeps the newest mails in memory, so that people and tests can read what
// programs on this machine send, such as the codes of a sign-in. It accepts mail for every address and delivers none.
//
// Start reading at Serve. The control API and the page at /mails show the mails.
package mailbox

import (
	"context"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/emersion/go-smtp"
	"golang.org/x/net/netutil"
)

// Limits of a mailbox. When it is full, the oldest mails make room.
const (
	mostMails       = 1000
	mostBytes       = 32 << 20 // of all mails
	mostMailBytes   = 4 << 20
	mostRecipients  = 100
	mostConnections = 100
	idleTimeout     = time.Minute
)

// Mail is a received mail.
type Mail struct {
	At time.Time `json:"at"`
	// From is the sender that the mail names, or else the one that the client named.
	From string `json:"from"`
	// To holds all recipients, including those that the mail does not name.
	To      []string `json:"to"`
	Subject string   `json:"subject"`
	Text    string   `json:"text"`
	HTML    string   `json:"html"`
}

func (m Mail) size() int {
	n := len(m.From) + len(m.Subject) + len(m.Text) + len(m.HTML)
	for _, to := range m.To {
		n += len(to)
	}
	return n
}

// Deps holds the dependencies of a Mailbox.
type Deps struct {
	Now func() time.Time
	Log *slog.Logger
}

// Mailbox holds the newest mails.
type Mailbox struct {
	deps  Deps
	mu    sync.Mutex
	mails []Mail // oldest first
	bytes int    // of all mails
}

// New returns an empty Mailbox. It receives mail while Serve runs.
func New(d Deps) *Mailbox { return &Mailbox{deps: d} }

// Mails returns the mails to an address, or all if it is empty, oldest first.
func (b *Mailbox) Mails(to string) []Mail {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := []Mail{}
	for _, m := range b.mails {
		if to == "" || slices.ContainsFunc(m.To, func(one string) bool { return strings.EqualFold(one, to) }) {
			list = append(list, m)
		}
	}
	return list
}

func (b *Mailbox) add(m Mail) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mails = append(b.mails, m)
	b.bytes += m.size()
	drop := 0
	for len(b.mails)-drop > mostMails || b.bytes > mostBytes {
		b.bytes -= b.mails[drop].size()
		drop++
	}
	b.mails = slices.Delete(b.mails, 0, drop)
}

// Serve receives mail on a listener until ctx ends, and closes the listener.
func (b *Mailbox) Serve(ctx context.Context, listener net.Listener) error {
	server := smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) { return &session{box: b}, nil }))
	server.Domain = "mailbox.test"
	server.EnableSMTPUTF8 = true
	server.MaxMessageBytes = mostMailBytes
	server.MaxRecipients = mostRecipients
	server.ReadTimeout, server.WriteTimeout = idleTimeout, idleTimeout
	server.ErrorLog = slog.NewLogLogger(b.deps.Log.Handler(), slog.LevelWarn)
	stop := context.AfterFunc(ctx, func() {
		_ = server.Close()
		_ = listener.Close() // if ctx ended before the server knew the listener
	})
	defer stop()
	return server.Serve(netutil.LimitListener(listener, mostConnections))
}

// session is the connection of one client, which sends one mail after another.
type session struct {
	box  *Mailbox
	from string
	to   []string
}

func (s *session) Mail(from string, _ *smtp.MailOptions) error {
	s.from = from
	return nil
}

func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.to = append(s.to, to)
	return nil
}

func (s *session) Data(r io.Reader) error {
	raw, err := io.ReadAll(r)
	if err != nil {
		return err // the server has the reply for it if it is not wrapped
	}
	m := parse(raw)
	m.At, m.To = s.box.deps.Now().UTC(), s.to
	if m.From == "" {
		m.From = s.from
	}
	s.box.add(m)
	return nil
}

func (s *session) Reset() { s.from, s.to = "", nil }

func (*session) Logout() error { return nil }
