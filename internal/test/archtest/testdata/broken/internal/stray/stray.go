// Package stray is in no group.
package stray
