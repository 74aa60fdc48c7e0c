// Package streamtest provides an event store in memory and the wire that carries its live messages, for tests of
// streams. Both can be made to fail.
package streamtest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/engine/redis"
	"github.com/stagedoor/stagedoor/internal/events/event"
)

// ErrAway is the error of a store or wire that was made to fail.
var ErrAway = errors.New("unavailable")

// Memory is the store and the wire. Hold its lock to change its fields.
type Memory struct {
	sync.Mutex
	Now    func() time.Time
	Events []event.Stored
	// Horizon is the first transaction that readers of an org cannot see yet; 0 for none.
	Horizon int64
	// Down makes the store fail, Mute the wire.
	Down, Mute bool
	// Reads counts reads of pages.
	Reads int
	// Tx is the last transaction.
	Tx int64

	seqs      map[string]int64
	listening map[int]listener
	listeners int
}

type listener struct {
	pattern string
	heard   func([]byte, []string)
}

// New returns an empty Memory.
func New(now func() time.Time) *Memory {
	return &Memory{Now: now, seqs: map[string]int64{}, listening: map[int]listener{}}
}

// Add stores events of a source in one transaction, and publishes them if publish is set.
func (m *Memory) Add(org id.Org, source string, publish bool, kinds ...string) []event.Stored {
	m.Lock()
	m.Tx++
	var made []event.Stored
	for _, kind := range kinds {
		m.seqs[source]++
		s := event.Stored{Org: org, Source: source, Seq: m.seqs[source], Tx: m.Tx, ID: id.New[id.Event](), Kind: kind, At: m.Now()}
		s.Body = event.AppendEnvelope(nil, &event.Envelope{ID: s.ID, Kind: kind, Account: source, At: s.At, Seq: s.Seq})
		made = append(made, s)
	}
	m.Events = append(m.Events, made...)
	m.Unlock()
	if publish {
		m.Tell(made...)
	}
	return made
}

// Tell publishes a live message.
func (m *Memory) Tell(list ...event.Stored) {
	var payload []byte
	for i := range list {
		payload = event.AppendLive(payload, &list[i])
	}
	m.Lock()
	defer m.Unlock()
	subject := event.LiveSubject(list[0].Org, list[0].Source)
	for _, l := range m.listening {
		if !m.Mute && (l.pattern == subject || strings.HasPrefix(subject, strings.TrimSuffix(l.pattern, "*")) && strings.HasSuffix(l.pattern, "*")) {
			l.heard(slices.Clone(payload), nil)
		}
	}
}

func (m *Memory) SubscribeTraced(ctx context.Context, pattern string, heard func([]byte, []string)) error {
	m.Lock()
	m.listeners++
	n := m.listeners
	m.listening[n] = listener{pattern, heard}
	m.Unlock()
	<-ctx.Done()
	m.Lock()
	delete(m.listening, n)
	m.Unlock()
	return nil
}

func (m *Memory) Ping(context.Context) error {
	m.Lock()
	defer m.Unlock()
	if m.Mute {
		return ErrAway
	}
	return nil
}

// read returns up to limit events for which do returns true.
func (m *Memory) read(do func(event.Stored) bool, limit int) (list []event.Stored, err error) {
	m.Lock()
	defer m.Unlock()
	m.Reads++
	if m.Down {
		return nil, ErrAway
	}
	for _, e := range m.Events {
		if len(list) < limit && do(e) {
			list = append(list, e)
		}
	}
	return list, nil
}

func (m *Memory) SourceAfter(_ context.Context, org id.Org, source string, p event.SourcePage) ([]event.Stored, error) {
	return m.read(func(e event.Stored) bool {
		return e.Org == org && e.Source == source && e.Seq > p.After.Number() && !e.At.Before(p.Since)
	}, p.Limit)
}

func (m *Memory) Cursor(p event.Position, ofOrg bool) string {
	return event.Generations{0}.Cursor(p, ofOrg)
}

func (m *Memory) Position(_ context.Context, cursor string, ofOrg bool) (event.Position, bool, error) {
	return event.Generations{0}.Position(cursor, ofOrg)
}

func (m *Memory) OrgAfter(_ context.Context, org id.Org, p event.Position, since time.Time, limit int) ([]event.Stored, event.Position, error) {
	list, err := m.read(func(e event.Stored) bool {
		after := e.Tx > p.Tx || e.Tx == p.Tx && e.ID > p.ID
		return e.Org == org && after && !e.At.Before(since) && (m.Horizon == 0 || e.Tx < m.Horizon)
	}, limit)
	if len(list) > 0 {
		p = list[len(list)-1].Position()
	}
	return list, p, err
}

func (m *Memory) OrgHead(context.Context, id.Org) (event.Position, error) {
	m.Lock()
	defer m.Unlock()
	if m.Down {
		return event.Position{}, ErrAway
	}
	if m.Horizon != 0 {
		return event.Position{Tx: m.Horizon}, nil
	}
	return event.Position{Tx: m.Tx + 1}, nil
}

func (m *Memory) SourceHead(_ context.Context, _ id.Org, source string) (event.Position, error) {
	m.Lock()
	defer m.Unlock()
	if m.Down {
		return event.Position{}, ErrAway
	}
	return event.Position{Tx: m.seqs[source]}, nil
}

func (m *Memory) Oldest(ctx context.Context, org id.Org, source string, since time.Time) (int64, error) {
	list, err := m.SourceAfter(ctx, org, source, event.SourcePage{Since: since, Limit: 1})
	if err != nil {
		return 0, err
	}
	if len(list) > 0 {
		return list[0].Seq, nil
	}
	m.Lock()
	defer m.Unlock()
	return m.seqs[source] + 1, nil
}

// NoRedis is a Redis that is unavailable.
type NoRedis struct{}

// Run always fails.
func (NoRedis) Run(context.Context, *redis.Script, []string, []string) (string, error) {
	return "", redis.ErrUnavailable
}

func (m *Memory) Find(_ context.Context, org id.Org, source string, wanted id.Event) (event.Stored, error) {
	m.Lock()
	defer m.Unlock()
	for _, e := range m.Events {
		if e.Org == org && e.Source == source && e.ID == wanted {
			return e, nil
		}
	}
	return event.Stored{}, problem.EventNotFound.New("The account has no event with this id.")
}

func (m *Memory) FindOne(_ context.Context, org id.Org, wanted id.Event) (event.Stored, error) {
	m.Lock()
	defer m.Unlock()
	for _, e := range m.Events {
		if e.Org == org && e.ID == wanted {
			return e, nil
		}
	}
	return event.Stored{}, problem.EventNotFound.New("The organisation has no event with this id.")
}

func (m *Memory) Newest(_ context.Context, n event.Newest) (p event.NewestPage, err error) {
	m.Lock()
	defer m.Unlock()
	for _, e := range slices.Backward(m.Events) {
		before := n.Before.Tx == 0 || e.Tx < n.Before.Tx || e.Tx == n.Before.Tx && e.ID < n.Before.ID
		if e.Org != n.Org || !before || e.At.Before(n.Since) || !n.Until.IsZero() && e.At.After(n.Until) || !n.Text.In(e.Body) || n.Sources != nil && !slices.Contains(n.Sources, e.Source) || n.Kinds != nil && !slices.Contains(n.Kinds, e.Kind) {
			continue
		}
		if len(p.Events) == n.Limit {
			p.Next = p.Events[n.Limit-1].Position()
			return p, nil
		}
		p.Events = append(p.Events, e)
		p.Scanned++
	}
	return p, nil
}
