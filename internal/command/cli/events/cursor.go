package events

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"

	"github.com/stagedoor/stagedoor/internal/command/cli/lock"
)

// mark is the place up to which events have been heard, in a file. It is written after each event, so whoever is killed or put to sleep
// goes on with the next one.
//
// The file has two slots that are written in turns, each in one write and with a checksum: a machine that loses power in the middle of
// one still has the other. There is no rename and no sync per event, because they would cost more than the event.
type mark struct {
	file *os.File
	n    uint64
	// cursor is the place that was read; empty if there was none.
	cursor string
}

const slotSize = 128

// errTaken means that another process keeps the same mark.
var errTaken = errors.New("another process keeps this place")

// openMark opens the mark of an organisation and a selection of its events. Who else opens it at the same time gets errTaken, with the
// cursor but without the right to move it.
func openMark(dir, org, profile string, w which) (*mark, error) {
	sum := sha256.Sum256([]byte(strings.Join([]string{org, profile, w.account, strings.Join(w.events, ",")}, "\n")))
	dir = filepath.Join(dir, "listen")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make %s: %w", dir, err)
	}
	file, err := os.OpenFile(filepath.Join(dir, org+"-"+hex.EncodeToString(sum[:6])+".mark"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("remember the place: %w", err)
	}
	m := &mark{file: file}
	m.read()
	if err := lock.File(file); err != nil {
		m.close()
		return &mark{cursor: m.cursor}, errTaken
	}
	return m, nil
}

// read finds the newer of the slots that are whole.
func (m *mark) read() {
	text := make([]byte, 2*slotSize)
	n, _ := m.file.ReadAt(text, 0) // what is missing is an empty slot
	for at := 0; at+slotSize <= n; at += slotSize {
		var count uint64
		var cursor string
		var sum uint32
		line := strings.TrimRight(string(text[at:at+slotSize]), " \n")
		body, _, ok := cutLast(line, " ")
		if _, err := fmt.Sscanf(line, "%d %s %08x", &count, &cursor, &sum); err != nil || !ok || crc32.ChecksumIEEE([]byte(body)) != sum {
			continue
		}
		if count >= m.n {
			m.n, m.cursor = count, cursor
		}
	}
}

func cutLast(text, sep string) (before, after string, found bool) {
	i := strings.LastIndex(text, sep)
	if i < 0 {
		return text, "", false
	}
	return text[:i], text[i+len(sep):], true
}

// save moves the mark on. It never moves it back, so that looking at old events again does not bring them all back the next time; places
// sort as texts. A mark that another process keeps is not moved at all.
func (m *mark) save(cursor string) error {
	if cursor <= m.cursor {
		return nil
	}
	return m.set(cursor)
}

// set moves the mark wherever it is told.
func (m *mark) set(cursor string) error {
	if m.file == nil {
		return nil
	}
	m.n++
	body := fmt.Sprintf("%d %s", m.n, cursor)
	line := fmt.Sprintf("%s %08x", body, crc32.ChecksumIEEE([]byte(body)))
	if len(line) >= slotSize {
		return fmt.Errorf("remember the place: %q is too long", cursor)
	}
	slot := int64(m.n%2) * slotSize
	if _, err := m.file.WriteAt([]byte(line+strings.Repeat(" ", slotSize-1-len(line))+"\n"), slot); err != nil {
		return fmt.Errorf("remember the place: %w", err)
	}
	m.cursor = cursor
	return nil
}

func (m *mark) close() {
	if m.file != nil {
		_ = m.file.Close() // what was written is written; closing it gives up the lock
	}
}

// eventOf is the event that a place is behind; empty for the very beginning.
func eventOf(cursor string) string {
	_, event, _ := strings.Cut(cursor, ".")
	return event
}
