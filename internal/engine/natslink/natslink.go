// Package natslink opens connections to NATS. Packages pubsub and eventlog have one connection each, with the same
// credentials and the same way to reconnect. Start with Connect.
package natslink

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/stagedoor/stagedoor/internal/base/logkey"
	"github.com/stagedoor/stagedoor/internal/base/secret"
)

// Access is how a node proves to the servers who it is, and how it checks who they are. The files are read again for
// every connection, so certificates and the credentials file can be renewed without a restart. The public key of an
// NKey is fixed by Connect, so another seed in NKeyFile needs a restart.
type Access struct {
	// CAFile has the certificates of the authorities that sign the servers' certificates. Default: those of the system.
	// CertFile and KeyFile are the node's own certificate. Any of them requires TLS.
	CAFile, CertFile, KeyFile string
	// CredentialsFile has a JWT and its key; NKeyFile has the seed of an NKey. At most one of them is set.
	CredentialsFile, NKeyFile string
	// Inbox is the prefix of the subjects on which this node gets answers. Nodes of different roles have different ones,
	// so that the servers can keep the answers of one role from the others.
	Inbox string
}

// ErrAccess means that the settings of the connection contradict each other.
var ErrAccess = errors.New("set STAGEDOOR_NATS_CREDENTIALS_FILE or STAGEDOOR_NATS_NKEY_FILE, not both")

// Connect prepares a connection that reconnects for as long as it is open. It does not wait for the servers, so a node
// can start while NATS is down. It fails only if the URL or a file cannot be used.
func Connect(servers secret.String, name string, a Access, log *slog.Logger, more ...nats.Option) (*nats.Conn, error) {
	options := []nats.Option{
		nats.Name(name),
		nats.RetryOnFailedConnect(true),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(250 * time.Millisecond),
		nats.ReconnectBufSize(-1), // fail while disconnected: callers retry, or need not
		nats.PingInterval(5 * time.Second),
		nats.MaxPingsOutstanding(2),
		// By default, the client gives up for good when the server refuses it twice. A server that has not loaded new
		// credentials yet would end the connection of a node for the rest of its life.
		nats.IgnoreAuthErrorAbort(),
		// Without a handler, the client prints errors to stderr.
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { LogRefusal(log, err) }),
		nats.ReconnectErrHandler(logFailures(log)),
	}
	access, err := a.options()
	if err != nil {
		return nil, err
	}
	conn, err := nats.Connect(servers.Reveal(), append(append(options, access...), more...)...)
	if err != nil {
		// The client's error can contain the URL, including the password. Files were checked before.
		return nil, errors.New("NATS_URL cannot be used; it looks like nats://host:4222 or tls://host:4222")
	}
	return conn, nil
}

func (a Access) options() (list []nats.Option, err error) {
	// Options are applied once to nothing: otherwise, the client does not say which setting names a file that cannot be used.
	if a.CAFile != "" {
		authorities := nats.RootCAs(a.CAFile)
		if err := authorities(&nats.Options{}); err != nil {
			return nil, fmt.Errorf("STAGEDOOR_NATS_CA_FILE: %w", err)
		}
		list = append(list, authorities)
	}
	if a.CertFile != "" {
		own := nats.ClientCert(a.CertFile, a.KeyFile)
		if err := own(&nats.Options{}); err != nil {
			return nil, fmt.Errorf("STAGEDOOR_NATS_CERT_FILE, STAGEDOOR_NATS_KEY_FILE: %w", err)
		}
		list = append(list, own)
	}
	if a.Inbox != "" {
		list = append(list, nats.CustomInboxPrefix(a.Inbox))
	}
	switch {
	case a.CredentialsFile != "" && a.NKeyFile != "":
		return nil, ErrAccess
	case a.CredentialsFile != "":
		list = append(list, nats.UserCredentials(a.CredentialsFile))
	case a.NKeyFile != "":
		option, err := nats.NkeyOptionFromSeed(a.NKeyFile)
		if err != nil {
			return nil, fmt.Errorf("STAGEDOOR_NATS_NKEY_FILE: %w", err)
		}
		list = append(list, option)
	}
	return list, nil
}

// noContext is for log lines of the client's callbacks, which have no context.
var noContext = context.Background() //nolint:forbidigo // there is no caller

// LogRefusal logs an error that means that the servers do not allow this node a subject: their permissions do not match
// its roles. It ignores other errors, which callers get, and a nil log.
func LogRefusal(log *slog.Logger, err error) {
	if log != nil && errors.Is(err, nats.ErrPermissionViolation) {
		log.LogAttrs(noContext, slog.LevelWarn, "NATS refuses a subject", slog.Any(logkey.Error, err))
	}
}

// logFailures logs why a connection cannot be established: a wrong certificate looks like a server that is down
// otherwise. It logs an error once, not at every try.
func logFailures(log *slog.Logger) nats.ConnErrHandler {
	var last atomic.Value
	return func(_ *nats.Conn, err error) {
		if log != nil && err != nil && last.Swap(err.Error()) != err.Error() {
			log.LogAttrs(noContext, slog.LevelWarn, "cannot connect to NATS", slog.Any(logkey.Error, err))
		}
	}
}

// ClearText returns the hosts of the URL to which connections may be unencrypted. A server can ask for encryption, but
// an attacker on the way can suppress the request: only the settings of the node count.
func ClearText(servers secret.String, a Access) (hosts []string) {
	for server := range strings.SplitSeq(servers.Reveal(), ",") {
		server = strings.TrimSpace(server)
		if !strings.Contains(server, "://") {
			server = "nats://" + server
		}
		u, err := url.Parse(server)
		if err != nil {
			continue // Connect reports it
		}
		if u.Scheme == "tls" || u.Scheme == "wss" || a.CAFile != "" || a.CertFile != "" {
			return nil // the client encrypts all connections if one server or a file requires it
		}
		hosts = append(hosts, u.Hostname())
	}
	return hosts
}
