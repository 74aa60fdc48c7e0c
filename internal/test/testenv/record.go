package testenv

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

// recording is the folder in which this run of the tests keeps what it sends and receives; empty for none.
// scripts/record-examples sets it, and makes the examples of the OpenAPI document from the recordings.
var recording = os.Getenv("STAGEDOOR_RECORD")

var recordMu sync.Mutex

// Record adds a line to the recordings, if there are any.
func Record(what any) {
	if recording == "" {
		return
	}
	line, err := json.Marshal(what)
	if err != nil {
		return // What is not JSON is no example.
	}
	recordMu.Lock()
	defer recordMu.Unlock()
	file, err := os.OpenFile(filepath.Join(recording, fmt.Sprintf("%d.jsonl", os.Getpid())), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return // scripts/record-examples says what is missing.
	}
	defer file.Close()
	_, _ = file.Write(append(line, '\n'))
}

// IsRecording reports whether this run records.
func IsRecording() bool { return recording != "" }

// RecordEvent records an event as it was streamed, or the data of one as it was stored.
func RecordEvent(kind string, envelope, data json.RawMessage) {
	Record(struct {
		Event    string          `json:"event"`
		Envelope json.RawMessage `json:"envelope,omitempty"`
		Data     json.RawMessage `json:"data,omitempty"`
	}{kind, envelope, data})
}
