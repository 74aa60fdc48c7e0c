// Command stagedoor is the command line that customers use: connect accounts, call them, follow their events.
package main

import (
	"context"
	"os"

	"github.com/stagedoor/stagedoor/internal/command/cli"
)

func main() {
	os.Exit(cli.Main(context.Background(), os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr))
}
