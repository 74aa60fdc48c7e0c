// Command sandboxd runs the sandbox platform.
package main

import (
	"context"
	"os"
	"time"

	"github.com/stagedoor/stagedoor/sandbox"
)

func main() {
	os.Exit(sandbox.Main(context.Background(), os.Args[1:], time.Now, os.Stdout, os.Stderr))
}
