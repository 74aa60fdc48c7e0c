package webhook

import (
	"context"
	"encoding/base64"
	"errors"
	"log/slog"
	"strings"

	"github.com/stagedoor/stagedoor/internal/base/logkey"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/vault/seal"
)

// sealedSnippet precedes a snippet that is sealed. Those from before snippets were sealed have no prefix.
const sealedSnippet = "sealed:"

func (d *Delivery) snippetAddress() seal.Address {
	holder := string(d.Account)
	if holder == "" {
		holder = string(d.Org)
	}
	return seal.Address{Org: d.Org, Holder: holder, Purpose: seal.PurposeDelivery, Version: d.At.UnixMicro()}
}

// sealSnippet seals the snippet of a delivery with the account's key, because a receiver may repeat the event in its
// response. If it cannot, the delivery is logged without it.
func (w *Webhooks) sealSnippet(ctx context.Context, d *Delivery) {
	if d.Snippet == "" {
		return
	}
	sealed, err := w.deps.Seal.Seal(ctx, d.snippetAddress(), secret.New(d.Snippet))
	if err != nil {
		d.Snippet = ""
		if !errors.Is(err, seal.ErrShredded) { // the account was deleted
			w.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot seal a receiver's response", slog.String(logkey.Account, string(d.Account)), slog.Any(logkey.Error, err))
		}
		return
	}
	d.Snippet = sealedSnippet + base64.RawStdEncoding.EncodeToString(sealed)
}

// openSnippets opens the snippets of deliveries that were read. Those of a deleted account are empty.
func (w *Webhooks) openSnippets(ctx context.Context, list []Delivery) error {
	for i := range list {
		d := &list[i]
		text, found := strings.CutPrefix(d.Snippet, sealedSnippet)
		if !found {
			continue
		}
		d.Snippet = ""
		sealed, err := base64.RawStdEncoding.DecodeString(text)
		if err != nil {
			continue // nothing that this service has written
		}
		opened, err := w.deps.Seal.Open(ctx, d.snippetAddress(), sealed)
		if errors.Is(err, seal.ErrUnavailable) {
			return sealProblem(err)
		}
		if err == nil {
			d.Snippet = opened.Reveal()
		}
	}
	return nil
}

// OpenSnippet returns a delivery that was read with its snippet opened.
func (w *Webhooks) OpenSnippet(ctx context.Context, d Delivery) (Delivery, error) {
	list := []Delivery{d}
	err := w.openSnippets(ctx, list)
	return list[0], err
}
