// Package zz keeps what is being added in go.mod; it goes away with the last of its users.
package zz

import (
	_ "charm.land/lipgloss/v2"
	_ "github.com/alecthomas/chroma/v2"
	_ "github.com/creack/pty"
	_ "github.com/modelcontextprotocol/go-sdk/mcp"
	_ "github.com/rogpeppe/go-internal/txtar"
	_ "github.com/stagedoor/stagedoor/client/go"
	_ "github.com/zalando/go-keyring"
	_ "golang.org/x/term"
)
