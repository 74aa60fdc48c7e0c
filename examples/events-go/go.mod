module github.com/stagedoor/stagedoor/examples/events-go

go 1.25.0

require github.com/stagedoor/stagedoor/client/go v0.1.0
