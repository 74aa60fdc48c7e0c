// Package admin has a second comment.
package admin
