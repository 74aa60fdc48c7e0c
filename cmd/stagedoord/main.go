// Command stagedoord runs the Stagedoor server.
package main

import (
	"context"
	"os"

	"github.com/stagedoor/stagedoor/internal/app"
)

func main() {
	os.Exit(app.Main(context.Background(), os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
}
