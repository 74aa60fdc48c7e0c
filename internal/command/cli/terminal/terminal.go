// Package terminal reads single keys from a terminal. Unlike in the raw mode of golang.org/x/term, output and Ctrl-C work as
// usual meanwhile. Secrets are read with golang.org/x/term (package core).
package terminal
