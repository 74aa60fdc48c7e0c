// Package logsink writes records to where operators collect them: a file, a syslog server, or an HTTP endpoint. A batch is
// written in order, and Write returns when the receiver has it. A batch whose Write failed may have arrived in part or as
// a whole, so the caller repeats it, and receivers get records at least once.
//
// The package does not decide what is sent (package audit), and has no network access of its own: Deps has the functions
// that connect. Start reading at New.
package logsink

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"time"
)

// Record is one record.
type Record struct {
	At time.Time
	// JSON is one line, without a line break.
	JSON []byte
}

// Sink is a receiver. It is used by one goroutine.
type Sink interface {
	// Write sends records and returns when the receiver has them.
	Write(ctx context.Context, records []Record) error
}

// Target is a parsed address of a receiver.
type Target struct {
	// Kind is file, syslog or http.
	Kind string
	// Path is that of the file, and Address host:port of the syslog server. URL is that of the HTTP endpoint.
	Path, Address, URL string
	// Host is the host of a syslog server or an HTTP endpoint.
	Host string
	// Encrypted reports whether the connection uses TLS.
	Encrypted bool
}

var errTarget = errors.New("use file:/path, syslog+tls://host:6514, syslog+tcp://host:601 or https://host/path")

// Parse parses an address. The error does not quote it, because a URL may have a secret in it.
func Parse(text string) (Target, error) {
	u, err := url.Parse(text)
	if err != nil {
		return Target{}, errTarget
	}
	switch u.Scheme {
	case "file":
		if !filepath.IsAbs(u.Path) || u.Host != "" || u.RawQuery != "" || u.Fragment != "" {
			return Target{}, errors.New("the file is not an absolute path: use one such as file:/var/log/stagedoor/audit.jsonl")
		}
		return Target{Kind: "file", Path: filepath.Clean(u.Path)}, nil
	case "syslog+tcp", "syslog+tls":
		if u.Hostname() == "" || u.Port() == "" || u.Path != "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			return Target{}, errors.New("the syslog server lacks a host or a port: use an address such as syslog+tls://siem.example.com:6514")
		}
		return Target{Kind: "syslog", Address: u.Host, Host: u.Hostname(), Encrypted: u.Scheme == "syslog+tls"}, nil
	case "http", "https":
		if u.Hostname() == "" || u.User != nil || u.Fragment != "" {
			return Target{}, errors.New("the endpoint has no host, or a user or fragment: use an address such as https://siem.example.com/ingest, and a file for the token")
		}
		return Target{Kind: "http", URL: text, Host: u.Hostname(), Encrypted: u.Scheme == "https"}, nil
	}
	return Target{}, errTarget
}

// Deps are the dependencies of a Sink.
type Deps struct {
	Target Target
	// TokenFile has the bearer token of an HTTP endpoint; empty for none. It is read for every batch.
	TokenFile string
	// Client sends requests to an HTTP endpoint, and Dial connects to a syslog server.
	Client *http.Client
	Dial   func(ctx context.Context) (net.Conn, error)
	// Host is the name of this machine or node in syslog messages.
	Host string
}

// New returns the sink for a target.
func New(d Deps) Sink {
	switch d.Target.Kind {
	case "file":
		return file{d.Target.Path}
	case "syslog":
		return syslog{d.Dial, syslogName(d.Host)}
	default:
		return endpoint{d.Target.URL, d.TokenFile, d.Client}
	}
}

// encode returns records as JSON lines.
func encode(records []Record) []byte {
	var text []byte
	for _, r := range records {
		text = append(append(text, r.JSON...), '\n')
	}
	return text
}

// file appends to a file. It opens the file for every batch, so that the file can be rotated by renaming it.
type file struct{ path string }

func (f file) Write(_ context.Context, records []Record) error {
	if err := AppendLines(f.path, encode(records)); err != nil {
		return fmt.Errorf("append to the file: %w", err)
	}
	return nil
}
