package out_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/command/cli/out"
)

func printer(tty bool) (*out.Printer, *bytes.Buffer) {
	var stdout bytes.Buffer
	now := time.Date(2026, 11, 16, 12, 0, 0, 0, time.UTC)
	return &out.Printer{Stdout: &stdout, Stderr: &bytes.Buffer{}, TTY: tty, Width: 40, Now: func() time.Time { return now }}, &stdout
}

// A terminal gets a table that fits, a pipe everything; neither lets a stranger's text break a line or steer the terminal.
func TestTable(t *testing.T) {
	t.Parallel()
	table := out.Table{
		Columns: out.Columns("id", ">n", "text~"),
		Rows: [][]out.Cell{
			{out.Text("acct_1"), out.Number(1234567), out.Text("one\ttwo\nthree \x1b[2J four five six seven eight")},
			{out.Text("acct_22"), out.Number(5), out.Text("日本語のとても長いテキストがここにあります")},
		},
	}
	p, stdout := printer(true)
	p.Table(table)
	for line := range strings.Lines(stdout.String()) {
		if strings.ContainsAny(line, "\x1b\t") || len([]rune(line)) > 41 {
			t.Errorf("a line of the terminal: %q", line)
		}
	}
	if !strings.Contains(stdout.String(), "1 234 567") || !strings.Contains(stdout.String(), "…") {
		t.Errorf("the terminal shows\n%s", stdout)
	}
	p, stdout = printer(false)
	p.Table(table)
	if got := stdout.String(); !strings.HasPrefix(got, "acct_1\t1234567\tone two three [2J four five six seven eight\n") || strings.Count(got, "\n") != 2 {
		t.Errorf("the pipe gets %q", got)
	}
}

// Times and amounts read as a person tells them.
func TestTimes(t *testing.T) {
	t.Parallel()
	p, _ := printer(true)
	now := p.Now()
	for want, got := range map[string]string{
		"just now": p.Ago(now.Add(-59 * time.Second)), "1 min ago": p.Ago(now.Add(-time.Minute)), "3 h ago": p.Ago(now.Add(-3 * time.Hour)),
		"2 d ago": p.Ago(now.Add(-50 * time.Hour)), "in 21 s": p.Ago(now.Add(21 * time.Second)), "in 1 s": p.Ago(now.Add(time.Millisecond)),
		"1 h": out.Short(time.Hour), "75 min": out.Short(75 * time.Minute), "24 h": out.Short(24 * time.Hour), "250 ms": out.Short(250 * time.Millisecond),
		"-1 234": out.Group(-1234), "999": out.Group(999), "1 event": out.Count(1, "event", "events"), "0 events": out.Count(0, "event", "events"),
	} {
		if want != got {
			t.Errorf("want %q, got %q", want, got)
		}
	}
}

// A slip of the hand is understood; a word that is far from all is not guessed at.
func TestSuggest(t *testing.T) {
	t.Parallel()
	known := []string{"accounts", "connect", "listen", "login", "logout", "logs"}
	for word, want := range map[string]string{
		"lgoin": "Did you mean login?", "acounts": "Did you mean accounts?", "lo": "Did you mean login or logout or logs?", "zebra": "", "": "",
	} {
		if got := out.DidYouMean(word, known); got != want {
			t.Errorf("%q: want %q, got %q", word, want, got)
		}
	}
}
