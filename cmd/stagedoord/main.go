// Command stagedoord runs the Stagedoor server.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/stagedoor/stagedoor/internal/app"
)

func main() {
	if err := app.Protect(); err != nil {
		// A sandbox may forbid it. The server works without.
		fmt.Fprintln(os.Stderr, "stagedoord:", err)
	}
	os.Exit(app.Main(context.Background(), os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
}
