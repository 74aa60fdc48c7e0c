package app

import (
	"context"
	"fmt"

	"github.com/stagedoor/stagedoor/internal/base/clock"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/vault/kms"
	"github.com/stagedoor/stagedoor/internal/vault/seal"
)

// openSealer opens the keyring.
func (n *Node) openSealer(ctx context.Context) error {
	var (
		now kms.Wrapper = noKMS{}
		old []kms.Wrapper
		err error
	)
	if n.cfg.KMS != "" {
		wraps, before := n.cfg.KMSSettings()
		if now, old, err = openKMS(ctx, wraps, before); err != nil {
			return err
		}
	}
	n.keyring = n.db
	if n.cfg.Keyring.Reveal() != n.cfg.Database.Reveal() && !n.cfg.Keyring.Empty() {
		if n.keyring, err = postgres.Open(ctx, postgres.Config{URL: n.cfg.Keyring, MaxConns: max(n.cfg.MaxConns, 4), Name: "stagedoord " + n.cfg.Node}); err != nil {
			return fmt.Errorf("STAGEDOOR_KEYRING_URL: %w", err)
		}
	}
	n.sealer = seal.New(seal.Deps{Config: seal.Config{}, DB: n.keyring, KMS: now, OldKMS: old, Bus: n.bus, Registry: n.registry, Log: n.log, Now: clock.Now})
	return nil
}

// noKMS is used if no key management service is set. It can neither encrypt nor decrypt, which is enough to print
// documents.
type noKMS struct{}

func (noKMS) ID() string { return "none:none" }

func (noKMS) Wrap(context.Context, secret.String, []byte) (kms.Wrapped, error) {
	return kms.Wrapped{}, kms.ErrUnavailable
}

func (noKMS) Unwrap(context.Context, kms.Wrapped, []byte) (secret.String, error) {
	return secret.String{}, kms.ErrUnavailable
}

func (noKMS) Check(context.Context) (kms.Ref, error) { return kms.Ref{}, kms.ErrUnavailable }
