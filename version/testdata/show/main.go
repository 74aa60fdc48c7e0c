// Command show prints the version like every program, but links faster.
package main

import (
	"os"

	"github.com/stagedoor/stagedoor/version"
)

func main() { _, _ = os.Stdout.WriteString(version.Get().String()) }
