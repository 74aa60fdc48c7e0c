package events

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/command/cli/profile"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook/sign"
)

// secretMark are the first letters of what this program signs with, so that nobody takes it for the secret of a registered webhook. They
// are base64 as well, so every library for Standard Webhooks takes the secret as it is.
const secretMark = "cli/"

// secretBytes are random behind the mark; with its three the length needs no padding.
const secretBytes = 30

// signingSecret is what this machine signs an organisation's events with: made once, and the same until it is rotated.
func signingSecret(dir, org string, rotate bool) (secret.String, error) {
	path := filepath.Join(dir, "listen", org+".secret")
	if !rotate {
		text, err := os.ReadFile(path)
		if err == nil && strings.HasPrefix(string(text), sign.Prefix) {
			return secret.New(strings.TrimSpace(string(text))), nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return secret.String{}, fmt.Errorf("read the signing secret: %w", err)
		}
	}
	var raw [secretBytes]byte
	_, _ = rand.Read(raw[:]) // it never fails
	made := sign.Prefix + secretMark + base64.StdEncoding.EncodeToString(raw[:])
	if err := profile.WriteFile(path, []byte(made+"\n")); err != nil {
		return secret.String{}, err
	}
	return secret.New(made), nil
}

// secretStart is as much of a secret as may be shown.
func secretStart(s secret.String) string {
	text := s.Reveal()
	return text[:min(len(text), len(sign.Prefix)+len(secretMark)+4)]
}
