// Package stagedoor is the Go client of Stagedoor's API.
package stagedoor
