package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	stagedoor "github.com/stagedoor/stagedoor/client/go"
)

func event(t *testing.T, seq int64) *stagedoor.Event {
	t.Helper()
	e := &stagedoor.Event{}
	text := fmt.Sprintf(`{"id":"evt_%d","event":"message","accountId":"acct_1","ts":"2026-11-16T00:00:00Z","data":{},"meta":{"seq":%d,"class":"durable"}}`, seq, seq)
	if err := json.Unmarshal([]byte(text), e); err != nil {
		t.Fatal(err)
	}
	return e
}

// A journal whose last line is incomplete after a crash continues after the line before it.
func TestAJournalSurvivesACrash(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "events.jsonl")
	j, err := openJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	for seq := range int64(3) {
		if err := j.Append(event(t, seq+1)); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.SetCursor("acct_1", "00000000000003"); err != nil {
		t.Fatal(err)
	}
	if _, err := j.file.WriteString(`{"event":{"id":"evt_4"`); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}

	j, err = openJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if j.Len() != 3 || j.Last("acct_1") != 3 || j.Cursor("acct_1") != "00000000000003" {
		t.Fatalf("%d events, last %d, cursor %s", j.Len(), j.Last("acct_1"), j.Cursor("acct_1"))
	}
	if err := j.Append(event(t, 4)); err != nil {
		t.Fatal(err)
	}
	if err := j.Append(event(t, 6)); err == nil {
		t.Fatal("an event was stored before its predecessor")
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := bytes.Count(whole, []byte("\n")); got != 5 {
		t.Fatalf("%d lines", got)
	}
}
