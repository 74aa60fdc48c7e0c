// Package smtp hands mails over to the operator's mail server. The server signs and delivers them; this package neither
// queues nor repeats (package tenant/mail does both), and has no network access of its own: Deps has the function that
// connects. Start reading at Client.Send.
package smtp

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/mail"
	"net/url"
	"strconv"
	"strings"
	"time"

	gomail "github.com/wneessen/go-mail"

	"github.com/stagedoor/stagedoor/internal/base/secret"
)

// Example is a complete address of a server, for error messages.
const Example = "smtp://user:password@smtp.example.com:587?from=Stagedoor+<no-reply@example.com>"

// Settings say how to reach a server.
type Settings struct {
	Host string
	Port int
	// Implicit means TLS from the first byte; otherwise the client starts TLS with STARTTLS, and refuses a server
	// without it. Insecure means no TLS.
	Implicit, Insecure bool
	// User is empty if the server requires no sign-in.
	User     string
	Password secret.String
	// From is the sender of every mail.
	From mail.Address
}

// Address returns host:port.
func (s Settings) Address() string { return net.JoinHostPort(s.Host, strconv.Itoa(s.Port)) }

// Parse parses the address of a server: smtp:// (STARTTLS, port 587), smtps:// (TLS, port 465) or smtp+insecure:// (port
// 25), with the sender in the parameter from. The error does not quote the address, which has a password in it.
func Parse(address secret.String) (Settings, error) {
	u, err := url.Parse(address.Reveal())
	if err != nil || u.Hostname() == "" || strings.Trim(u.Path, "/") != "" || u.Fragment != "" {
		return Settings{}, errors.New("it is not an address such as " + Example)
	}
	s := Settings{Host: u.Hostname()}
	switch u.Scheme {
	case "smtp":
		s.Port = 587
	case "smtps":
		s.Port, s.Implicit = 465, true
	case "smtp+insecure":
		s.Port, s.Insecure = 25, true
	default:
		return Settings{}, errors.New("it begins with none of smtp://, smtps:// and smtp+insecure://: use an address such as " + Example)
	}
	if text := u.Port(); text != "" {
		if s.Port, err = strconv.Atoi(text); err != nil || s.Port < 1 || s.Port > 65535 {
			return Settings{}, errors.New("its port is not a number from 1 to 65535")
		}
	}
	if u.User != nil {
		password, _ := u.User.Password()
		s.User, s.Password = u.User.Username(), secret.New(password)
		if s.User == "" || password == "" {
			return Settings{}, errors.New("the user or the password is empty: write both, or none")
		}
		if s.Insecure {
			return Settings{}, errors.New("smtp+insecure:// would send the password unencrypted: use smtp:// or smtps://, or remove it")
		}
	}
	for name := range u.Query() {
		if name != "from" {
			return Settings{}, errors.New("the only parameter is from: use an address such as " + Example)
		}
	}
	from, err := mail.ParseAddress(u.Query().Get("from"))
	if err != nil {
		return Settings{}, errors.New("the parameter from is not the address of a sender: use an address such as " + Example)
	}
	s.From = *from
	return s, nil
}

// Mail is one mail.
type Mail struct {
	// ID is unique per mail. It becomes the Message-ID, by which mailboxes recognise a mail that was sent twice.
	ID string
	// To is the address of the only recipient.
	To                  string
	Subject, Text, HTML string
	// Unsubscribe is the address for List-Unsubscribe with one click (RFC 8058); empty for none.
	Unsubscribe string
	At          time.Time
}

// timeout bounds the connection and each command.
const timeout = 20 * time.Second

// Deps are the dependencies of a Client.
type Deps struct {
	Settings Settings
	// Dial connects to Settings.Address, with TLS if Settings.Implicit is set.
	Dial func(ctx context.Context) (net.Conn, error)
	// Roots verify the server after STARTTLS; nil means the authorities of the system.
	Roots *x509.CertPool
}

// Client sends mails to one server. It is safe for concurrent use.
type Client struct{ deps Deps }

// New returns a Client. It does not connect.
func New(d Deps) *Client { return &Client{d} }

// RefusedError means that the server refused a mail for good, so that another try is in vain. It does not quote the
// server's answer, which may name the recipient.
type RefusedError struct {
	// Code is the status code of the server, such as 550; 0 if the mail could not be written.
	Code int
}

// Error returns the failure as text.
func (e *RefusedError) Error() string {
	if e.Code == 0 {
		return "the mail cannot be sent in this form"
	}
	return fmt.Sprintf("the mail server refuses the mail with status %d", e.Code)
}

// Send hands a mail over. It returns nil when the server has accepted the mail, a RefusedError if the server never will,
// and another error if a later try can succeed.
func (c *Client) Send(ctx context.Context, m Mail) error {
	s := c.deps.Settings
	msg, err := compose(s.From, m)
	if err != nil {
		return &RefusedError{}
	}
	policy := gomail.TLSMandatory
	switch {
	case s.Insecure:
		policy = gomail.NoTLS
	case s.Implicit:
		policy = gomail.TLSOpportunistic // the connection is encrypted already
	}
	options := []gomail.Option{
		gomail.WithPort(s.Port), gomail.WithTimeout(timeout), gomail.WithTLSPolicy(policy), gomail.WithoutNoop(),
		gomail.WithTLSConfig(&tls.Config{MinVersion: tls.VersionTLS12, RootCAs: c.deps.Roots, ServerName: s.Host}),
		gomail.WithHELO(helo(s.From)),
		gomail.WithDialContextFunc(func(ctx context.Context, _, _ string) (net.Conn, error) { return c.deps.Dial(ctx) }),
	}
	if s.User != "" {
		options = append(options, gomail.WithSMTPAuth(gomail.SMTPAuthAutoDiscover),
			gomail.WithUsername(s.User), gomail.WithPassword(s.Password.Reveal()))
	}
	// A Client of the library keeps the state of its sign-in, so each mail has its own.
	client, err := gomail.NewClient(s.Host, options...)
	if err != nil {
		return fmt.Errorf("set up the mail client: %w", err)
	}
	conn, err := client.DialToSMTPClientWithContext(ctx)
	if err != nil {
		return fmt.Errorf("connect to the mail server: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	err = client.SendWithSMTPClient(conn, msg)
	_ = client.CloseWithSMTPClient(conn) // the server has the mail already, or the error says why not
	if err == nil || msg.IsDelivered() {
		return nil
	}
	return classify(err)
}

// classify returns the error of a mail without the text of the server's answer.
func classify(err error) error {
	failed, ok := errors.AsType[*gomail.SendError](err)
	switch {
	case !ok:
		return errors.New("send the mail: the connection failed")
	case failed.ErrorCode() >= 500:
		return &RefusedError{failed.ErrorCode()}
	case failed.ErrorCode() >= 400:
		return fmt.Errorf("the mail server refuses the mail for now, with status %d", failed.ErrorCode())
	case failed.Reason == gomail.ErrGetSender || failed.Reason == gomail.ErrGetRcpts:
		return &RefusedError{}
	}
	return errors.New("send the mail: the connection failed while " + failed.Reason.String())
}

// compose writes a mail with its two forms and its headers.
func compose(from mail.Address, m Mail) (*gomail.Msg, error) {
	msg := gomail.NewMsg(gomail.WithNoDefaultUserAgent())
	msg.FromMailAddress(&from)
	if err := msg.To(m.To); err != nil {
		return nil, err
	}
	_, domain, _ := strings.Cut(from.Address, "@")
	msg.SetMessageIDWithValue(m.ID + "@" + domain)
	msg.SetDateWithValue(m.At)
	msg.Subject(strings.Join(strings.Fields(m.Subject), " "))
	msg.SetGenHeader("Auto-Submitted", "auto-generated")
	if m.Unsubscribe != "" {
		msg.SetGenHeaderPreformatted("List-Unsubscribe", "<"+m.Unsubscribe+">")
		msg.SetGenHeaderPreformatted("List-Unsubscribe-Post", "List-Unsubscribe=One-Click")
	}
	msg.SetBodyString(gomail.TypeTextPlain, m.Text)
	msg.AddAlternativeString(gomail.TypeTextHTML, m.HTML)
	return msg, nil
}

// helo is the name by which the client introduces itself: the domain of the sender, which says nothing about the network.
func helo(from mail.Address) string {
	_, domain, _ := strings.Cut(from.Address, "@")
	return domain
}
