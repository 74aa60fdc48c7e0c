package output_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/command/cli/output"
)

func printer(tty bool) (*output.Printer, *bytes.Buffer) {
	var stdout bytes.Buffer
	now := time.Date(2026, 11, 16, 12, 0, 0, 0, time.UTC)
	return &output.Printer{Stdout: &stdout, Stderr: &bytes.Buffer{}, TTY: tty, Width: 40,
		Now: func() time.Time { return now }}, &stdout
}

// A spinner that another one replaced ends when it is stopped, in whichever order they are.
func TestReplacedSpinnerStops(t *testing.T) {
	t.Parallel()
	p, _ := printer(true)
	p.ErrTTY = true
	outer := p.Spin("outer")
	inner := p.Spin("inner")
	inner.Stop()
	outer.Stop()
	outer.Stop()
}

// TestTable checks that a table is cut to a terminal's width and complete in a pipe, and that control characters in
// cells reach neither.
func TestTable(t *testing.T) {
	t.Parallel()
	table := output.Table{
		Columns: output.Columns("id", ">n", "text~"),
		Rows: [][]output.Cell{
			{output.Text("acct_1"), output.Number(1234567), output.Text("one\ttwo\nthree \x1b[2J four five six seven eight")},
			{output.Text("acct_22"), output.Number(5), output.Text("日本語のとても長いテキストがここにあります")},
		},
	}
	p, stdout := printer(true)
	p.Table(table)
	for line := range strings.Lines(stdout.String()) {
		if strings.ContainsAny(line, "\x1b\t") || len([]rune(line)) > 41 {
			t.Errorf("terminal line: %q", line)
		}
	}
	if !strings.Contains(stdout.String(), "1 234 567") || !strings.Contains(stdout.String(), "…") {
		t.Errorf("terminal output:\n%s", stdout)
	}
	p, stdout = printer(false)
	p.Table(table)
	if got := stdout.String(); !strings.HasPrefix(got, "acct_1\t1234567\tone two three [2J four five six seven eight\n") || strings.Count(got, "\n") != 2 {
		t.Errorf("piped output: %q", got)
	}
}

func TestTimes(t *testing.T) {
	t.Parallel()
	p, _ := printer(true)
	now := p.Now()
	for want, got := range map[string]string{
		"just now": p.Ago(now.Add(-59 * time.Second)), "1 min ago": p.Ago(now.Add(-time.Minute)), "3 h ago": p.Ago(now.Add(-3 * time.Hour)),
		"2 d ago": p.Ago(now.Add(-50 * time.Hour)), "in 21 s": p.Ago(now.Add(21 * time.Second)), "in 1 s": p.Ago(now.Add(time.Millisecond)),
		"1 h": output.Short(time.Hour), "75 min": output.Short(75 * time.Minute), "24 h": output.Short(24 * time.Hour), "250 ms": output.Short(250 * time.Millisecond),
		"-1 234": output.Group(-1234), "999": output.Group(999), "1 event": output.Count(1, "event",
			"events"), "0 events": output.Count(0, "event", "events"),
	} {
		if want != got {
			t.Errorf("want %q, got %q", want, got)
		}
	}
}

// TestSuggest checks that typos and prefixes get suggestions, and unrelated words get none.
func TestSuggest(t *testing.T) {
	t.Parallel()
	known := []string{"accounts", "connect", "listen", "login", "logout", "logs"}
	for word, want := range map[string]string{
		"lgoin": "Did you mean login?", "acounts": "Did you mean accounts?", "lo": "Did you mean login or logout or logs?", "zebra": "", "": "",
	} {
		if got := output.DidYouMean(word, known); got != want {
			t.Errorf("%q: want %q, got %q", word, want, got)
		}
	}
}
