// Package vault is a group and not a package.
package vault
