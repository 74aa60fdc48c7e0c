// Package terminal changes the input mode of a terminal and restores it. Ctrl-C keeps working, unlike in the
// raw mode of golang.org/x/term.
package terminal
