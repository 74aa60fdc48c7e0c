// Package admin has two comments.
package admin
