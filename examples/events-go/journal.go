package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	stagedoor "github.com/stagedoor/stagedoor/client/go"
)

// journal is a file with one event per line. One write stores both the event and the progress. A database table with a
// unique column for the event id, written in the same transaction as the event's effects, does the same.
type journal struct {
	mu       sync.Mutex
	file     *os.File
	count    int
	accounts map[string]*place
}

// place is the progress of an account.
type place struct {
	// Seq is the number of the last event. Cursor is the position up to which the log was read.
	Seq    int64
	Cursor string
	// Gap means that events between Seq and the next one are lost, because the log no longer has them.
	Gap bool
}

// line is an event or a cursor.
type line struct {
	Event     json.RawMessage `json:"event,omitempty"`
	AccountID string          `json:"accountId,omitempty"`
	Cursor    string          `json:"cursor,omitempty"`
}

// openJournal opens or creates the file and reads the progress from it. It removes an incomplete line at the end, which
// a crash left and which was never acknowledged.
func openJournal(path string) (*journal, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	j := &journal{file: file, accounts: map[string]*place{}}
	whole := int64(0)
	lines := bufio.NewReader(file)
	for {
		text, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = j.learn(text)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%s at byte %d: %w", path, whole, err), file.Close())
		}
		whole += int64(len(text))
	}
	if err := file.Truncate(whole); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	if _, err := file.Seek(whole, io.SeekStart); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return j, nil
}

func (j *journal) learn(text []byte) error {
	var l line
	if err := json.Unmarshal(text, &l); err != nil {
		return err
	}
	if l.Event == nil {
		j.at(l.AccountID).Cursor = l.Cursor
		return nil
	}
	var event stagedoor.Event
	if err := json.Unmarshal(l.Event, &event); err != nil {
		return err
	}
	if event.Meta.Seq == nil {
		return fmt.Errorf("%s has no sequence number", event.ID)
	}
	j.at(event.AccountID).Seq = *event.Meta.Seq
	j.count++
	return nil
}

func (j *journal) at(account string) *place {
	p, ok := j.accounts[account]
	if !ok {
		p = &place{}
		j.accounts[account] = p
	}
	return p
}

// Len returns the number of events.
func (j *journal) Len() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.count
}

// Last returns the sequence number of the account's last event, or 0.
func (j *journal) Last(account string) int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.at(account).Seq
}

// Cursor returns the position up to which the account's log was read, or "" for its start.
func (j *journal) Cursor(account string) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.at(account).Cursor
}

// Skip allows any sequence number for the account's next event.
func (j *journal) Skip(account string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.at(account).Gap = true
}

// Append stores a durable event. When it returns, the event is on disk.
func (j *journal) Append(event *stagedoor.Event) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	p, seq := j.at(event.AccountID), *event.Meta.Seq
	if first := p.Seq == 0; seq != p.Seq+1 && !p.Gap && !first {
		return fmt.Errorf("event %d after %d: events are missing", seq, p.Seq)
	}
	if err := j.write(line{Event: event.Raw}); err != nil {
		return err
	}
	p.Seq, p.Gap = seq, false
	j.count++
	return nil
}

// SetCursor stores the position up to which the account's log was read.
func (j *journal) SetCursor(account, cursor string) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.at(account).Cursor == cursor {
		return nil
	}
	if err := j.write(line{AccountID: account, Cursor: cursor}); err != nil {
		return err
	}
	j.at(account).Cursor = cursor
	return nil
}

func (j *journal) write(l line) error {
	text, err := json.Marshal(l)
	if err != nil {
		return err
	}
	if _, err := j.file.Write(append(bytes.TrimSpace(text), '\n')); err != nil {
		return err
	}
	return j.file.Sync()
}

func (j *journal) Close() error { return j.file.Close() }
