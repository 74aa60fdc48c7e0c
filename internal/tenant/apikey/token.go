package apikey

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"

	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
)

// A key is a prefix, 43 base62 characters (256 bits) and 6 base62 characters of CRC-32 over all that is before them:
// a typo, a cut-off copy and most garbage are refused without looking anything up, and scanners of leaked secrets can
// tell a real one from a look-alike.
const (
	digits       = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	entropyChars = 43
	sumChars     = 6
	hintChars    = 4
)

func prefix(env org.Environment) string { return "sd_" + string(env) + "_" }

// hash is how a key is known to the database and the cache.
type hash [sha256.Size]byte

var errToken = errors.New("not an API key of this service")

// parseToken checks the form and the checksum and returns the hash.
func parseToken(text string) (hash, error) {
	var rest string
	switch {
	case strings.HasPrefix(text, prefix(org.EnvLive)):
		rest = text[len(prefix(org.EnvLive)):]
	case strings.HasPrefix(text, prefix(org.EnvSandbox)):
		rest = text[len(prefix(org.EnvSandbox)):]
	default:
		return hash{}, errToken
	}
	if len(rest) != entropyChars+sumChars {
		return hash{}, errToken
	}
	for i := range len(rest) {
		if strings.IndexByte(digits, rest[i]) < 0 {
			return hash{}, errToken
		}
	}
	body, sum := text[:len(text)-sumChars], text[len(text)-sumChars:]
	if checksum(body) != sum {
		return hash{}, errToken
	}
	return sha256.Sum256([]byte(text)), nil
}

// newToken makes a key, its hash and the hint by which its owner can recognise it.
func newToken(env org.Environment) (key secret.String, h hash, hint string, err error) {
	text := make([]byte, 0, 64)
	text = append(text, prefix(env)...)
	start := len(text)
	var noise [64]byte
	for len(text) < start+entropyChars {
		if _, err := rand.Read(noise[:]); err != nil {
			return secret.String{}, hash{}, "", fmt.Errorf("make key: %w", err)
		}
		for _, b := range noise {
			// Six bits each; the two values above 61 are thrown away so that every character is equally likely.
			if b &= 63; int(b) < len(digits) && len(text) < start+entropyChars {
				text = append(text, digits[b])
			}
		}
	}
	whole := string(text) + checksum(string(text))
	return secret.New(whole), sha256.Sum256([]byte(whole)), whole[:start+hintChars], nil
}

func checksum(body string) string {
	n := crc32.ChecksumIEEE([]byte(body))
	var out [sumChars]byte
	for i := len(out) - 1; i >= 0; i-- {
		out[i] = digits[n%uint32(len(digits))]
		n /= uint32(len(digits))
	}
	return string(out[:])
}
