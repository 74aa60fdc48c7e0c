// Package configfile keeps the settings that are in files up to date while the node runs: the plans, and the proxies.
//
// Files compares the content of each file with what is in use, every few seconds, so it works with files that are
// replaced, edited in place, or mounted by Kubernetes. A content that is refused changes nothing: the last good one stays
// in use until the file is corrected. The owner of the settings parses and applies them (File.Apply). Start reading at
// Files.Add.
package configfile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/stagedoor/stagedoor/internal/base/clock"
	"github.com/stagedoor/stagedoor/internal/base/logkey"
)

const (
	// readEvery is the interval at which the files are read.
	readEvery = 5 * time.Second
	// MaxBytes is the maximum size of a file.
	MaxBytes = 1 << 20
)

// File is a file with settings.
type File struct {
	// Setting is the variable that has the path. It also labels the metrics.
	Setting string
	Path    string
	// Apply puts a content into use. If it returns an error, nothing has changed. The error is logged, so it must not
	// contain a secret.
	Apply func(ctx context.Context, content []byte) error
}

// Deps are the dependencies of Files.
type Deps struct {
	Registry prometheus.Registerer
	Log      *slog.Logger
}

// Files are the files of a node.
type Files struct {
	deps    Deps
	reads   *prometheus.CounterVec
	refused *prometheus.GaugeVec

	mu   sync.Mutex
	list []*watched
}

// watched is a file with what is known about it.
type watched struct {
	File
	// inUse is the content that was applied last, and seen what was last read.
	inUse, seen []byte
	// unread is why the file could not be read the last time; empty if it was.
	unread string
}

// New returns Files without a file.
func New(d Deps) *Files {
	register := promauto.With(d.Registry)
	return &Files{
		deps: d,
		reads: register.NewCounterVec(prometheus.CounterOpts{
			Name: "stagedoor_config_file_changes_total",
			Help: "Changes of a file with settings that this node has noticed, by the setting and outcome: applied or refused.",
		}, []string{"setting", "outcome"}),
		refused: register.NewGaugeVec(prometheus.GaugeOpts{
			Name: "stagedoor_config_file_refused",
			Help: "1 if this node cannot use a file with settings as it is, and goes on with its last good content.",
		}, []string{"setting"}),
	}
}

// Add reads a file and applies it. The error names the setting.
func (f *Files) Add(ctx context.Context, file File) error {
	content, err := read(file.Path)
	if err == nil {
		err = file.Apply(ctx, content)
	}
	if err != nil {
		return fmt.Errorf("%s (%s): %w", file.Setting, file.Path, err)
	}
	f.refused.WithLabelValues(file.Setting).Set(0)
	f.reads.WithLabelValues(file.Setting, "applied")
	f.reads.WithLabelValues(file.Setting, "refused")
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = append(f.list, &watched{File: file, inUse: content, seen: content})
	return nil
}

// Run reads the files until ctx ends.
func (f *Files) Run(ctx context.Context) error {
	for range clock.Ticks(ctx, readEvery) {
		f.Reread(ctx)
	}
	return nil
}

// Reread reads all files and applies those that have changed.
func (f *Files) Reread(ctx context.Context) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, w := range f.list {
		f.reread(ctx, w)
	}
}

func (f *Files) reread(ctx context.Context, w *watched) {
	content, err := read(w.Path)
	if err != nil {
		if w.unread != err.Error() {
			w.unread, w.seen = err.Error(), nil
			f.refuse(ctx, w, err)
		}
		return
	}
	w.unread = ""
	if w.seen != nil && bytes.Equal(content, w.seen) {
		return
	}
	w.seen = content
	if bytes.Equal(content, w.inUse) { // A change that was refused is undone.
		f.refused.WithLabelValues(w.Setting).Set(0)
		f.deps.Log.LogAttrs(ctx, slog.LevelInfo, "settings file is as it was", slog.String(logkey.Setting, w.Setting))
		return
	}
	if err := w.Apply(ctx, content); err != nil {
		f.refuse(ctx, w, err)
		return
	}
	w.inUse = content
	f.reads.WithLabelValues(w.Setting, "applied").Inc()
	f.refused.WithLabelValues(w.Setting).Set(0)
	f.deps.Log.LogAttrs(ctx, slog.LevelInfo, "settings file applied", slog.String(logkey.Setting, w.Setting))
}

func (f *Files) refuse(ctx context.Context, w *watched, err error) {
	f.reads.WithLabelValues(w.Setting, "refused").Inc()
	f.refused.WithLabelValues(w.Setting).Set(1)
	f.deps.Log.LogAttrs(ctx, slog.LevelError, "settings file refused; its last good content stays in use",
		slog.String(logkey.Setting, w.Setting), slog.Any(logkey.Error, err))
}

// read returns the content of a file.
func read(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, MaxBytes+1))
	switch {
	case err != nil:
		return nil, err
	case len(content) > MaxBytes:
		return nil, fmt.Errorf("%s has more than %d bytes", path, MaxBytes)
	case len(bytes.TrimSpace(content)) == 0:
		return nil, errors.New(path + " is empty")
	}
	return content, nil
}
