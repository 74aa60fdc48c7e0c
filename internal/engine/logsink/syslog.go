package logsink

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

const (
	// priority is that of all messages: facility 13 (log audit), severity 6 (informational).
	priority = 13*8 + 6
	// syslogTimeout bounds a batch, with the time until the server has read all of it.
	syslogTimeout = 30 * time.Second
	// maxHost is the maximum length of HOSTNAME.
	maxHost = 255
)

// syslog sends messages of RFC 5424 over TCP or TLS, each after its length (RFC 6587, 5425).
//
// The protocol has no acknowledgement, and the kernel accepts data that the server never reads. So every batch has its own
// connection: after the last message this side is closed, and the server closes its side when it has read everything. Only
// then is the batch delivered.
type syslog struct {
	dial func(ctx context.Context) (net.Conn, error)
	host string
}

func (s syslog) Write(ctx context.Context, records []Record) error {
	ctx, cancel := context.WithTimeout(ctx, syslogTimeout)
	defer cancel()
	conn, err := s.dial(ctx)
	if err != nil {
		return fmt.Errorf("connect to the syslog server: %w", err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) }) // ends reads and writes
	defer stop()
	if _, err := conn.Write(s.frames(records)); err != nil {
		return fmt.Errorf("write to the syslog server: %w", err)
	}
	half, ok := conn.(interface{ CloseWrite() error })
	if !ok {
		return errors.New("the connection to the syslog server cannot be closed on one side")
	}
	if err := half.CloseWrite(); err != nil {
		return fmt.Errorf("end the batch for the syslog server: %w", err)
	}
	if _, err := io.Copy(io.Discard, io.LimitReader(conn, 1<<10)); err != nil {
		return fmt.Errorf("wait until the syslog server has read the batch: %w", err)
	}
	return nil
}

// frames returns the messages of a batch.
func (s syslog) frames(records []Record) []byte {
	var text []byte
	for _, r := range records {
		header := fmt.Sprintf("<%d>1 %s %s stagedoor - audit - ", priority, r.At.UTC().Format("2006-01-02T15:04:05.000000Z"), s.host)
		text = fmt.Appendf(text, "%d %s", len(header)+len(r.JSON), header)
		text = append(text, r.JSON...)
	}
	return text
}

// syslogName returns a name as HOSTNAME, which is printable ASCII without spaces.
func syslogName(host string) string {
	host = strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' {
			return -1
		}
		return r
	}, host)
	if host == "" {
		return "-"
	}
	return host[:min(len(host), maxHost)]
}
