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

// secretTag starts every secret of this program, so that it is not mistaken for the secret of a registered webhook. It
// is valid base64, so Standard Webhooks libraries accept the secret.
const secretTag = "cli/"

// secretBytes is the number of random bytes after the tag. Tag (3 bytes decoded) and random bytes
// need no base64 padding.
const secretBytes = 30

// signingSecret returns the secret that this machine signs an organisation's events with. It is created on first use
// and stays the same until rotated.
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
	_, _ = rand.Read(raw[:]) // never fails
	made := sign.Prefix + secretTag + base64.StdEncoding.EncodeToString(raw[:])
	if err := profile.WriteFile(path, []byte(made+"\n")); err != nil {
		return secret.String{}, err
	}
	return secret.New(made), nil
}

// secretStart returns the part of a secret that may be shown.
func secretStart(s secret.String) string {
	text := s.Reveal()
	return text[:min(len(text), len(sign.Prefix)+len(secretTag)+4)]
}
