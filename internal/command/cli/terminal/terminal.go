// Package terminal changes how a terminal takes what is typed, and puts it back. Ctrl-C stays what it is, which is why
// golang.org/x/term, whose raw mode takes it away, is not enough.
package terminal
