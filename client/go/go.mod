module github.com/stagedoor/stagedoor/client/go

go 1.25.0
