// Command stagedoor is the command-line client for customers. It connects accounts, calls them and follows their
// events.
package main

import (
	"context"
	"os"

	"github.com/stagedoor/stagedoor/internal/command/cli"
)

func main() {
	os.Exit(cli.Main(context.Background(), os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr))
}
