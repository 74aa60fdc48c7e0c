// Command sdkgen generates the client libraries from openapi/openapi.json and client/VERSION. Run it in the root of the
// repository.
//
//	sdkgen          write the files
//	sdkgen -check   list the files that are out of date, and fail if there are any
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/stagedoor/stagedoor/internal/command/sdkgen"
)

func main() {
	root := flag.String("root", ".", "root `directory` of the repository")
	check := flag.Bool("check", false, "write nothing; fail if a file is out of date")
	flag.Parse()
	if err := run(*root, *check); err != nil {
		fmt.Fprintln(os.Stderr, "sdkgen:", err)
		os.Exit(1)
	}
}

func run(root string, check bool) error {
	m, err := sdkgen.Load(root)
	if err != nil {
		return err
	}
	if !check {
		return sdkgen.Write(root, m, sdkgen.Languages())
	}
	stale, err := sdkgen.Stale(root, m, sdkgen.Languages())
	if err != nil {
		return err
	}
	for _, name := range stale {
		fmt.Fprintln(os.Stderr, "out of date:", name)
	}
	if len(stale) > 0 {
		return fmt.Errorf("%d generated files are out of date: run make generate", len(stale))
	}
	return nil
}
