// Package out is how the command line speaks: data on standard output, words on standard error.
//
// A person at a terminal gets aligned tables, colour and relative times; a pipe gets tab-separated values, whole and plain;
// --json gives the API's own body. The three never change into one another by themselves. Start at Printer.
package out

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// Printer writes for one command. Commands share it with their background work, so writes are one at a time.
type Printer struct {
	// Stdout gets data and nothing else; Stderr gets everything that is said about it.
	Stdout, Stderr io.Writer
	// TTY is true when a person reads standard output, ErrTTY when one reads standard error.
	TTY, ErrTTY bool
	// JSON asks for the API's body, Quiet for no words but errors, Color for colour.
	JSON, Quiet, Color bool
	// Width is how many columns the terminal has; 0 is unknown.
	Width int
	// Now is the clock by which times are told.
	Now func() time.Time

	mu   sync.Mutex
	spin *Spinner
}

// Data writes a line of data to standard output.
func (p *Printer) Data(format string, args ...any) {
	p.write(p.Stdout, fmt.Sprintf(format, args...)+"\n")
}

// Bytes writes data as it is to standard output.
func (p *Printer) Bytes(b []byte) {
	p.write(p.Stdout, string(b))
}

// Body writes a JSON body: as it came for a pipe, indented for a person.
func (p *Printer) Body(b []byte) {
	b = bytes.TrimSpace(b)
	if p.TTY {
		var pretty bytes.Buffer
		if json.Indent(&pretty, b, "", "  ") == nil {
			b = pretty.Bytes()
		}
	}
	p.write(p.Stdout, string(b)+"\n")
}

// Value writes a value as JSON, for what the command line itself has to say under --json.
func (p *Printer) Value(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	p.Body(text)
	return nil
}

// Line writes a value as one line of JSON, for streams.
func (p *Printer) Line(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	p.write(p.Stdout, string(text)+"\n")
	return nil
}

// Say writes a line of words to standard error, unless --quiet.
func (p *Printer) Say(format string, args ...any) {
	if !p.Quiet {
		p.write(p.Stderr, fmt.Sprintf(format, args...)+"\n")
	}
}

// Done tells that a state has changed, unless --quiet.
func (p *Printer) Done(format string, args ...any) {
	p.Say("%s %s", p.err(Good, "✓"), fmt.Sprintf(format, args...))
}

// Warn tells of something that a person should know even under --quiet.
func (p *Printer) Warn(format string, args ...any) {
	p.write(p.Stderr, p.err(Attention, "!")+" "+fmt.Sprintf(format, args...)+"\n")
}

// Hint names what one would do next. Only a person at a terminal gets it.
func (p *Printer) Hint(format string, args ...any) {
	if p.ErrTTY {
		p.Say("%s", p.err(Faint, fmt.Sprintf(format, args...)))
	}
}

// Err styles a part of a message for standard error.
func (p *Printer) Err(t Tone, text string) string { return p.err(t, text) }

// write clears a spinner that stands on the line, and puts it back after.
func (p *Printer) write(w io.Writer, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.spin != nil {
		p.spin.clear()
	}
	// A reader that has gone, as in `| head`, ends the process by its signal; there is nothing else to do about it here.
	_, _ = io.WriteString(w, text)
	if p.spin != nil {
		p.spin.draw()
	}
}

// OneLine makes a text fit for a cell: without line breaks and tabs, which would end the cell.
func OneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || r == '\r' {
			return ' '
		}
		if r < ' ' || r == 0x7f {
			return -1 // what a stranger wrote must not steer the reader's terminal
		}
		return r
	}, text)
}

// Alert writes a line about a failure to standard error, also under --quiet.
func (p *Printer) Alert(format string, args ...any) {
	p.write(p.Stderr, fmt.Sprintf(format, args...)+"\n")
}
