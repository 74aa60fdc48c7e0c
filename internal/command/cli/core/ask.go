package core

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/stagedoor/stagedoor/internal/command/cli/out"
	"github.com/stagedoor/stagedoor/internal/command/cli/terminal"
)

// reader is standard input with one buffer for all questions, so that none swallows the next one's answer.
func (a *App) reader() *bufio.Reader {
	if a.input == nil {
		a.input = bufio.NewReader(a.Stdin)
	}
	return a.input
}

// Ask asks for a line. Without anybody to answer it is a fault that names the flag to use instead.
func (a *App) Ask(ctx context.Context, question, instead string) (string, error) {
	if !a.Interactive() {
		return "", UsageHint(instead, "%s is needed, and nobody is here to ask", question)
	}
	return a.answer(ctx, question, a.readLine, func() {})
}

// AskSecret asks for something that is not shown while it is typed.
func (a *App) AskSecret(ctx context.Context, question, instead string) (string, error) {
	if !a.Interactive() {
		return "", UsageHint(instead, "%s is needed, and nobody is here to ask", question)
	}
	// Mute before the question is there: who pastes at once would see the secret otherwise.
	return a.answer(ctx, question, a.readHidden, a.mute())
}

// answer asks, and calls done when the question is over.
func (a *App) answer(ctx context.Context, question string, read func() (string, error), done func()) (string, error) {
	defer done()
	prompt := a.Out.Err(out.Strong, question) + ": "
	_, _ = io.WriteString(a.Out.Stderr, prompt)
	type result struct {
		text string
		err  error
	}
	// Read in the background, so that Ctrl-C is heard at once.
	got := make(chan result, 1)
	go func() {
		text, err := read()
		got <- result{text, err}
	}()
	select {
	case <-ctx.Done():
		a.Out.Alert("")
		return "", ctx.Err()
	case r := <-got:
		if errors.Is(r.err, io.EOF) && r.text == "" {
			a.Out.Alert("")
			return "", Usage("%s was not given", question)
		}
		if r.err != nil && !errors.Is(r.err, io.EOF) {
			return "", fmt.Errorf("read %s: %w", question, r.err)
		}
		return strings.TrimSpace(r.text), nil
	}
}

func (a *App) readLine() (string, error) { return a.reader().ReadString('\n') }

// readHidden reads a line that was not shown, the Enter at its end included.
func (a *App) readHidden() (string, error) {
	text, err := a.readLine()
	a.Out.Alert("")
	return text, err
}

// mute hides what is typed from now on, where standard input is a terminal.
func (a *App) mute() (restore func()) {
	if file, ok := a.Stdin.(*os.File); ok {
		if restore, err := terminal.Mute(file); err == nil {
			return restore
		}
	}
	return func() {}
}

// ReadSecret takes a secret that a script pipes in, or asks a person for it: the two ways that leave no trace in a list of processes or
// a shell's history.
func (a *App) ReadSecret(ctx context.Context, question string) (string, error) {
	if a.Interactive() {
		return a.AskSecret(ctx, question, "")
	}
	if a.StdinTTY {
		return "", UsageHint("Pipe it to standard input.", "%s is needed, and --no-input forbids asking", question)
	}
	text, err := a.ReadInput()
	if err != nil {
		return "", err
	}
	if len(strings.TrimSpace(string(text))) == 0 {
		return "", UsageHint("Pipe it to standard input.", "%s is needed, and standard input is empty", question)
	}
	return strings.TrimSpace(string(text)), nil
}

// NextLine is the next line that a script pipes in; io.EOF behind the last.
func (a *App) NextLine() (string, error) {
	text, err := a.readLine()
	if errors.Is(err, io.EOF) && text != "" {
		err = nil
	}
	return strings.TrimSpace(text), err
}

// maxInput is more than any request may be.
const maxInput = 64 << 20

// ReadInput reads standard input to its end.
func (a *App) ReadInput() ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(a.reader(), maxInput))
	if err != nil {
		return nil, fmt.Errorf("read standard input: %w", err)
	}
	return text, nil
}

// ReadFile reads a file, or standard input for "-".
func (a *App) ReadFile(path string) ([]byte, error) {
	if path == "-" {
		return a.ReadInput()
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, Usage("%v", err)
	}
	return text, nil
}

// Confirm lets something be destroyed only when its name was given by --confirm, or is typed now.
func (a *App) Confirm(ctx context.Context, consequence, name, confirmed string) error {
	if confirmed == name {
		return nil
	}
	if confirmed != "" {
		return Usage("--confirm=%s does not match: this is about %s", confirmed, name)
	}
	if !a.Interactive() {
		return UsageHint("Add --confirm="+Quote(name)+" if that is what you want.", "this has to be confirmed. %s", consequence)
	}
	a.Out.Warn("%s", consequence)
	typed, err := a.Ask(ctx, "Type "+name+" to go on", "")
	if err != nil {
		return err
	}
	if typed != name {
		return &Fault{Code: ExitUsage, Text: "that is not " + name + "; nothing was done"}
	}
	return nil
}

// Quote writes a word so that a shell reads it as one.
func Quote(word string) string {
	if strings.ContainsAny(word, " \t'\"$&|;<>()*?[]#~`\\!") || word == "" {
		return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	return word
}
