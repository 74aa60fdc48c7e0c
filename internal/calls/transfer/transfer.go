// Package transfer copies files between callers and platforms, through the account's egress. It holds only 32 KiB of
// a file in memory. A slow side slows the other one down through TCP flow control, and a side that stalls is cut off.
// The one exception is a form that does not give the size of its file first: the file is kept on disk, encrypted,
// until it is complete (spool.go).
//
// Start with Download and Fetch (download.go), or Upload and Part (upload.go). The manifest says where files are and
// which methods return their URLs (package catalog); package driver sends the requests.
package transfer

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/base/clock"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/operate/switches"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
	"github.com/stagedoor/stagedoor/internal/platform/registry"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
)

// accounts opens an account's session for an admitted call. *account.Accounts implements it.
type accounts interface {
	Ready(ctx context.Context, org id.Org, account id.Account, d admission.Decision) (account.Account, driver.Session, error)
	PlatformOf(ctx context.Context, org id.Org, account id.Account) (string, error)
}

// meter counts the bytes through a region. *usage.Usage implements it.
type meter interface {
	Carried(org id.Org, region string, sent, received int64)
}

// Config holds the settings. Zero values mean the defaults.
type Config struct {
	// PerNode and PerAccount bound the concurrent transfers on this node. Default: 256 and 8.
	PerNode, PerAccount int
	// Patience is how long the caller may take to send or read the next 32 KiB. Default: 30 s.
	Patience time.Duration
	// SpoolBytes bounds the total size of the files that are kept on disk to learn their size. They are in the folder
	// for temporary files. Default: 2 GiB.
	SpoolBytes int64
}

// Deps are the dependencies of Transfers.
type Deps struct {
	Config    Config
	Platforms func(id string) (registry.Platform, bool)
	Accounts  accounts
	// Call calls a method on an account with everything that package invoke does, such as retries and storing rotated
	// cookies. Its errors are problems that are not shared, because Transfers adds members to them.
	Call  func(ctx context.Context, org id.Org, account id.Account, d admission.Decision, m *catalog.Method, args catalog.Args) (result []byte, err error)
	Meter meter
	// Switches decides whether uploads are accepted. If it is nil, they always are.
	Switches *switches.Control
	// Registry registers the metrics. If it is nil, they are not registered.
	Registry prometheus.Registerer
}

// Transfers copies files. It is safe for concurrent use.
type Transfers struct {
	deps    Deps
	buffers sync.Pool
	gauge   prometheus.Gauge
	spool   spool

	mu         sync.Mutex
	inProgress int
	byAccount  map[id.Account]int
}

const (
	// chunk is how much of a file a transfer holds in memory, in bytes.
	chunk      = 32 << 10
	perNode    = 256
	perAccount = 8
	patience   = 30 * time.Second
	spoolBytes = 2 << 30
)

// New returns Transfers.
func New(d Deps) *Transfers {
	d.Config.PerNode = cmp.Or(d.Config.PerNode, perNode)
	d.Config.PerAccount = cmp.Or(d.Config.PerAccount, perAccount)
	d.Config.Patience = cmp.Or(d.Config.Patience, patience)
	d.Config.SpoolBytes = cmp.Or(d.Config.SpoolBytes, spoolBytes)
	return &Transfers{
		deps: d, byAccount: map[id.Account]int{}, spool: spool{limit: d.Config.SpoolBytes},
		buffers: sync.Pool{New: func() any { return new([chunk]byte) }},
		gauge:   promauto.With(d.Registry).NewGauge(prometheus.GaugeOpts{Name: "stagedoor_transfers", Help: "File transfers in progress on this node."}),
	}
}

// Caller is the caller of a transfer, the account, and what the caller may do.
type Caller struct {
	Org       id.Org
	Account   id.Account
	Admission admission.Decision
	// May reports whether the caller's key may call a method.
	May func(*catalog.Method) bool
	// MaxBytes bounds an upload. org.Unlimited means no bound.
	MaxBytes int
}

// activeTransfer is a transfer that was admitted and has a place.
type activeTransfer struct {
	transfers *Transfers
	caller    Caller
	platform  registry.Platform
	via       driver.Via
	session   driver.Session
}

// admit checks whether a transfer may proceed and reserves a place for it. methods selects the methods that the key
// must be allowed to call, or returns nil if the platform does not have them. The caller must call leave at the end.
func (t *Transfers) admit(ctx context.Context, c Caller, methods func(*catalog.Files) []*catalog.Method) (p *activeTransfer, leave func(), err error) {
	of, err := t.deps.Accounts.PlatformOf(ctx, c.Org, c.Account)
	if err != nil {
		return nil, nil, err
	}
	platform, ok := t.deps.Platforms(of)
	var needed []*catalog.Method
	if ok && platform.Catalog.Files != nil {
		needed = methods(platform.Catalog.Files)
	}
	// Check the key's allow-list before anything that costs something.
	if err := t.checkMethods(c, needed); err != nil {
		return nil, nil, err
	}
	if leave, err = t.reservePlace(c.Account); err != nil {
		return nil, nil, err
	}
	a, session, err := t.deps.Accounts.Ready(ctx, c.Org, c.Account, c.Admission)
	// Report an unusable account first, then a platform without such files.
	if err == nil && needed == nil {
		err = problem.UpstreamNotFound.New("The account's platform does not support this kind of file transfer.")
	}
	if err != nil {
		leave()
		return nil, nil, err
	}
	return &activeTransfer{transfers: t, caller: c, platform: platform, via: a.Via(), session: session}, leave, nil
}

// checkMethods fails if one of the methods is switched off, or not allowed for the caller's key.
func (t *Transfers) checkMethods(c Caller, needed []*catalog.Method) error {
	if slices.ContainsFunc(needed, func(m *catalog.Method) bool { return m.Access == catalog.Write }) {
		if err := t.deps.Switches.Refuse(switches.Writes); err != nil {
			return err
		}
	}
	for _, m := range needed {
		if !c.May(m) {
			return problem.MethodNotAllowedForKey.Newf("This requires the method %s, which this key may not call.", m.ID()).With("method", m.ID())
		}
	}
	return nil
}

// retryAfter is the wait that callers without a place are advised, in seconds.
const retryAfter = 2

// reservePlace counts a transfer, unless the account or the node has reached its limit.
func (t *Transfers) reservePlace(at id.Account) (leave func(), err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.byAccount[at] >= t.deps.Config.PerAccount:
		return nil, problem.QuotaExceeded.Newf("The account has %d transfers in progress, which is the limit. Wait until one has ended.", t.byAccount[at]).
			After(retryAfter).With("reason", "account_transfers").With("limit", t.deps.Config.PerAccount).With("current", t.byAccount[at])
	case t.inProgress >= t.deps.Config.PerNode:
		return nil, problem.ServiceUnavailable.New("This server has as many transfers in progress as it can take.").After(retryAfter)
	}
	t.inProgress++
	t.byAccount[at]++
	t.gauge.Set(float64(t.inProgress))
	return func() { t.release(at) }, nil
}

func (t *Transfers) release(at id.Account) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.inProgress--
	t.gauge.Set(float64(t.inProgress))
	if t.byAccount[at]--; t.byAccount[at] == 0 {
		delete(t.byAccount, at)
	}
}

func (p *activeTransfer) call(ctx context.Context, m *catalog.Method, args catalog.Args) ([]byte, error) {
	return p.transfers.deps.Call(ctx, p.caller.Org, p.caller.Account, p.caller.Admission, m, args)
}

// pointToPath changes the pointers of a problem from the method's arguments to the path parameters of the API.
func pointToPath(err error, names map[string]string) error {
	if p, ok := errors.AsType[*problem.Error](err); ok {
		for i, f := range p.Fields {
			if name, ok := names[strings.TrimPrefix(f.Pointer, "query/")]; ok {
				p.Fields[i].Pointer = "path/" + name
			}
		}
	}
	return err
}

// changedProblem returns the problem for a response of the platform that does not lead to a file. Other errors are
// returned unchanged.
func changedProblem(err error) error {
	if errors.Is(err, catalog.ErrChanged) || errors.Is(err, driver.ErrAddress) {
		return problem.UpstreamChanged.New("The platform's interface has changed; we have been notified.").Because(err)
	}
	return err
}

// callerConn controls the deadlines of the connection to the caller. The server's own timeouts are for short
// requests, so a transfer extends the deadlines as it progresses.
type callerConn struct {
	header   http.Header
	control  *http.ResponseController
	patience time.Duration
}

func (t *Transfers) newCallerConn(w http.ResponseWriter) *callerConn {
	return &callerConn{header: w.Header(), control: http.NewResponseController(w), patience: t.deps.Config.Patience}
}

// The methods below ignore errors: a response writer without a connection (in tests) has no deadlines.

// clearReadDeadline removes the read deadline. While nothing is read from the caller, a deadline would only make the
// server believe that the caller has gone away.
func (l *callerConn) clearReadDeadline() { _ = l.control.SetReadDeadline(time.Time{}) }

// extendRead gives the caller time to send the next piece, extendWrite to read one.
func (l *callerConn) extendRead()  { _ = l.control.SetReadDeadline(clock.Now().Add(l.patience)) }
func (l *callerConn) extendWrite() { _ = l.control.SetWriteDeadline(clock.Now().Add(l.patience)) }

// interruptRead ends a read that is waiting for the caller. The connection cannot be reused: the server takes the
// failed read for a caller that has gone away, and would cancel every later request on it.
func (l *callerConn) interruptRead() {
	l.header.Set("Connection", "close")
	_ = l.control.SetReadDeadline(time.Unix(1, 0))
}
