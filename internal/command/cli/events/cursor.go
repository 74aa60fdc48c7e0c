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

// checkpoint stores the cursor of the last handled event in a file. It is written after each event, so that listen
// resumes with the next event even after a crash.
//
// The file has two slots that are written alternately, each with one write and a checksum. If the machine loses
// power during a write, the other slot is intact. There is no rename or sync per event, because either would cost
// more than the event.
type checkpoint struct {
	// file is nil if another process holds the checkpoint; it is read-only then.
	file *os.File
	// n counts writes. The slot with the higher number is the newer one.
	n uint64
	// cursor is the stored position; empty if there is none.
	cursor string
}

// slotSize is the size of a slot in bytes.
const slotSize = 128

// errTaken means that another process holds the checkpoint.
var errTaken = errors.New("another process holds this checkpoint")

// openCheckpoint opens and locks the checkpoint of an organisation, profile and filter. If another process holds the
// lock it returns errTaken and a checkpoint that has the cursor but cannot be moved.
func openCheckpoint(dir, org, profile string, w filter) (*checkpoint, error) {
	sum := sha256.Sum256([]byte(strings.Join([]string{org, profile, w.account, strings.Join(w.events, ",")}, "\n")))
	dir = filepath.Join(dir, "listen")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create %s: %w", dir, err)
	}
	file, err := os.OpenFile(filepath.Join(dir, org+"-"+hex.EncodeToString(sum[:6])+".mark"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the checkpoint: %w", err)
	}
	m := &checkpoint{file: file}
	m.read()
	if err := lock.File(file); err != nil {
		m.close()
		return &checkpoint{cursor: m.cursor}, errTaken
	}
	return m, nil
}

// read loads the newer slot with a valid checksum.
func (m *checkpoint) read() {
	text := make([]byte, 2*slotSize)
	n, _ := m.file.ReadAt(text, 0) // a short file has an empty slot
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

// cutLast is strings.Cut at the last separator.
func cutLast(text, sep string) (before, after string, found bool) {
	i := strings.LastIndex(text, sep)
	if i < 0 {
		return text, "", false
	}
	return text[:i], text[i+len(sep):], true
}

// advance moves the checkpoint forward, never back: after `listen --since` has shown old events, the next run must not
// repeat them. Cursors sort as strings. It does nothing if another process holds the checkpoint.
func (m *checkpoint) advance(cursor string) error {
	if cursor <= m.cursor {
		return nil
	}
	return m.set(cursor)
}

// set moves the checkpoint forward or back. It does nothing if another process holds the checkpoint.
func (m *checkpoint) set(cursor string) error {
	if m.file == nil {
		return nil
	}
	m.n++
	body := fmt.Sprintf("%d %s", m.n, cursor)
	line := fmt.Sprintf("%s %08x", body, crc32.ChecksumIEEE([]byte(body)))
	if len(line) >= slotSize {
		return fmt.Errorf("save the checkpoint: cursor %q is too long", cursor)
	}
	slot := int64(m.n%2) * slotSize
	if _, err := m.file.WriteAt([]byte(line+strings.Repeat(" ", slotSize-1-len(line))+"\n"), slot); err != nil {
		return fmt.Errorf("save the checkpoint: %w", err)
	}
	m.cursor = cursor
	return nil
}

func (m *checkpoint) close() {
	if m.file != nil {
		_ = m.file.Close() // also releases the lock
	}
}

// eventInCursor returns the id of the event at a cursor; empty if the cursor is before the first event.
func eventInCursor(cursor string) string {
	_, event, _ := strings.Cut(cursor, ".")
	return event
}
