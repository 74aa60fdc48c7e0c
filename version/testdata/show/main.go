// Command show prints the version, as every program does. Linking it is quick.
package main

import (
	"os"

	"github.com/stagedoor/stagedoor/version"
)

func main() { _, _ = os.Stdout.WriteString(version.String()) }
