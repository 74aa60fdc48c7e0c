package apikey

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"

	"github.com/stagedoor/stagedoor/internal/base/environment"
	"github.com/stagedoor/stagedoor/internal/base/secret"
)

// A key consists of a prefix, 43 base62 characters (256 bits) and a CRC-32 of both in 6 base62 characters. The checksum
// detects typos, truncated copies and most garbage without a database read, and lets secret scanners tell a real key
// from a look-alike.
const (
	base62       = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	entropyChars = 43
	sumChars     = 6
	hintChars    = 4
)

func prefix(env environment.Environment) string { return "sd_" + string(env) + "_" }

// cutPrefix removes the prefix of any environment.
func cutPrefix(text string) (rest string, ok bool) {
	for _, env := range environment.All() {
		if rest, ok := strings.CutPrefix(text, prefix(env)); ok {
			return rest, true
		}
	}
	return "", false
}

// hash is the SHA-256 of a key, under which the database and the cache store it.
type hash [sha256.Size]byte

var errToken = errors.New("not an API key of this service")

// parseToken checks the form and the checksum of a key and returns its hash.
func parseToken(text string) (hash, error) {
	rest, ok := cutPrefix(text)
	if !ok || len(rest) != entropyChars+sumChars {
		return hash{}, errToken
	}
	for i := range len(rest) {
		if strings.IndexByte(base62, rest[i]) < 0 {
			return hash{}, errToken
		}
	}
	body, sum := text[:len(text)-sumChars], text[len(text)-sumChars:]
	if checksum(body) != sum {
		return hash{}, errToken
	}
	return sha256.Sum256([]byte(text)), nil
}

// newToken generates a key. hint is the prefix and the first four characters, by which its owner can recognise it.
func newToken(env environment.Environment) (key secret.String, h hash, hint string, err error) {
	text := make([]byte, 0, 64)
	text = append(text, prefix(env)...)
	start := len(text)
	var noise [64]byte
	for len(text) < start+entropyChars {
		if _, err := rand.Read(noise[:]); err != nil {
			return secret.String{}, hash{}, "", fmt.Errorf("make key: %w", err)
		}
		for _, b := range noise {
			// Use six bits per byte and discard the two values above 61, so that every character is equally likely.
			if b &= 63; int(b) < len(base62) && len(text) < start+entropyChars {
				text = append(text, base62[b])
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
		out[i] = base62[n%uint32(len(base62))]
		n /= uint32(len(base62))
	}
	return string(out[:])
}
