module github.com/stagedoor/stagedoor/examples/events-go

go 1.25.0

require github.com/stagedoor/stagedoor/client/go v0.0.0-00010101000000-000000000000

replace github.com/stagedoor/stagedoor/client/go => ../../client/go
