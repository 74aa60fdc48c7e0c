// Package testmail runs a real SMTP server in the process of a test, which keeps the mails that it accepts. It can require
// TLS and a password, and refuse mails. Start with New.
package testmail

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"

	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// From is the sender in Server.URL.
const From = "Stagedoor <no-reply@stagedoor.test>"

// Setup says what a server requires. The zero Setup requires nothing.
type Setup struct {
	// TLS has the server's certificate; nil for a server without TLS. Implicit means TLS from the first byte; otherwise
	// the server offers STARTTLS.
	TLS      *tls.Config
	Implicit bool
	// User and Password are required if they are set.
	User, Password string
}

// Mail is a mail that the server has accepted.
type Mail struct {
	// Envelope is the recipient that the client named.
	Envelope   string
	Header     mail.Header
	Subject    string
	Text, HTML string
}

// Server is a running server.
type Server struct {
	// URL is its address for STAGEDOOR_SMTP_URL.
	URL secret.String

	t       testing.TB
	setup   Setup
	server  *smtp.Server
	mu      sync.Mutex
	mails   []Mail
	answers []int
	arrived chan struct{}
}

// New starts a server, which stops when the test ends.
func New(t testing.TB, setup Setup) *Server {
	t.Helper()
	s := &Server{t: t, setup: setup, arrived: make(chan struct{}, 1)}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	u := url.URL{Scheme: "smtp+insecure", Host: listener.Addr().String(), RawQuery: url.Values{"from": {From}}.Encode()}
	if setup.TLS != nil {
		u.Scheme = "smtp"
	}
	if setup.User != "" {
		u.User = url.UserPassword(setup.User, setup.Password)
	}
	s.server = smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) {
		return &session{server: s}, nil
	}))
	s.server.Domain = "mail.stagedoor.test"
	if setup.Implicit {
		u.Scheme, listener = "smtps", tls.NewListener(listener, setup.TLS)
	} else {
		s.server.TLSConfig = setup.TLS
	}
	s.URL = secret.New(u.String())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.server.Serve(listener) // ends with an error when the test closes the server
	}()
	t.Cleanup(func() {
		_ = s.server.Close()
		<-done
	})
	return s
}

// Refuse makes the server answer the recipients of the next mails with these status codes, one for each mail.
func (s *Server) Refuse(codes ...int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers = append(s.answers, codes...)
}

// Mails returns the mails that the server has accepted, oldest first.
func (s *Server) Mails() []Mail {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.mails)
}

// Await waits until the server has accepted n mails in total, and returns them.
func (s *Server) Await(n int) []Mail {
	s.t.Helper()
	for {
		if mails := s.Mails(); len(mails) >= n {
			return mails
		}
		select {
		case <-s.arrived:
		case <-s.t.Context().Done():
			s.t.Fatal("the test ended before the mails arrived")
		}
	}
}

// nextAnswer returns the status code for the next recipient; 0 to accept it.
func (s *Server) nextAnswer() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.answers) == 0 {
		return 0
	}
	code := s.answers[0]
	s.answers = s.answers[1:]
	return code
}

func (s *Server) keep(m Mail) {
	s.mu.Lock()
	s.mails = append(s.mails, m)
	s.mu.Unlock()
	select {
	case s.arrived <- struct{}{}:
	default:
	}
}

// session is the connection of one client.
type session struct {
	server *Server
	signed bool
	to     string
}

// AuthMechanisms returns the ways to sign in.
func (s *session) AuthMechanisms() []string {
	if s.server.setup.User == "" {
		return nil
	}
	return []string{sasl.Plain}
}

// Auth checks a password.
func (s *session) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		if user != s.server.setup.User || password != s.server.setup.Password {
			return errors.New("wrong user or password")
		}
		s.signed = true
		return nil
	}), nil
}

func (s *session) Mail(string, *smtp.MailOptions) error {
	if s.server.setup.User != "" && !s.signed {
		return smtp.ErrAuthRequired
	}
	return nil
}

func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	if code := s.server.nextAnswer(); code != 0 {
		return &smtp.SMTPError{Code: code, EnhancedCode: smtp.EnhancedCode{code / 100, 1, 1}, Message: "not taking mail for " + to}
	}
	s.to = to
	return nil
}

func (s *session) Data(r io.Reader) error {
	raw, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	m, err := parse(raw)
	if err != nil {
		return err
	}
	m.Envelope = s.to
	s.server.keep(m)
	return nil
}

func (*session) Reset() {}

func (*session) Logout() error { return nil }

// parse reads a mail with a text and an HTML form.
func parse(raw []byte) (Mail, error) {
	message, err := mail.ReadMessage(bytes.NewReader(raw))
	if err != nil {
		return Mail{}, err
	}
	m := Mail{Header: message.Header}
	if m.Subject, err = new(mime.WordDecoder).DecodeHeader(message.Header.Get("Subject")); err != nil {
		return Mail{}, err
	}
	_, params, err := mime.ParseMediaType(message.Header.Get("Content-Type"))
	if err != nil {
		return Mail{}, err
	}
	for parts := multipart.NewReader(message.Body, params["boundary"]); ; {
		part, err := parts.NextRawPart()
		if errors.Is(err, io.EOF) {
			return m, nil
		}
		if err != nil {
			return Mail{}, err
		}
		text, err := io.ReadAll(quotedprintable.NewReader(part))
		if err != nil {
			return Mail{}, err
		}
		plain := strings.ReplaceAll(string(text), "\r\n", "\n")
		if strings.HasPrefix(part.Header.Get("Content-Type"), "text/html") {
			m.HTML = plain
		} else {
			m.Text = plain
		}
	}
}
