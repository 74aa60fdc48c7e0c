package seal

import (
	"context"
	"errors"

	"github.com/tink-crypto/tink-go/v2/tink"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/vault/kms"
	"github.com/stagedoor/stagedoor/internal/vault/seal/internal/db"
)

// Status describes the content of the keyring.
type Status struct {
	// Newest is the key that the key management service wraps with now. It is zero if KMSError is set.
	Newest   kms.Ref
	KMSError error
	// Root is the key that wraps the root; zero if there is no root yet.
	Root kms.Ref
	// OrgKeys counts the org keys by the key that wraps them.
	OrgKeys []OrgKeyCount
	// Orgs is the number of organisations with data keys, DataKeys the number of data keys. Renewed of them have a
	// second or later generation, and Waiting of them are still wrapped by an older org key.
	Orgs, DataKeys, Renewed, Waiting int
	// Holders is the number of holders with a data key, Shredded the number of those that were shredded in the last
	// 40 days.
	Holders, Shredded int
}

// OrgKeyCount is the number of org keys that one version of a key wraps.
type OrgKeyCount struct {
	By   kms.Ref
	Keys int
}

// Status reads the keyring and checks the key management service. A failure of the service is not an error of Status.
func (s *Sealer) Status(ctx context.Context) (Status, error) {
	var out Status
	out.Newest, out.KMSError = s.checkKMS(ctx)
	q := s.queries()
	root, err := q.RootKey(ctx)
	switch {
	case errors.Is(err, postgres.ErrNoRows):
	case err != nil:
		return out, unavailable("read the root", err)
	default:
		out.Root = kms.Ref{ID: root.KmsID, Version: uint32(root.KmsVersion)}
	}
	keys, err := q.CountOrgKeys(ctx)
	if err != nil {
		return out, unavailable("count org keys", err)
	}
	for _, k := range keys {
		out.OrgKeys = append(out.OrgKeys, OrgKeyCount{kms.Ref{ID: k.KmsID, Version: uint32(k.KmsVersion)}, int(k.Keys)})
	}
	data, err := q.CountDataKeys(ctx)
	if err != nil {
		return out, unavailable("count data keys", err)
	}
	out.Orgs, out.DataKeys, out.Renewed, out.Waiting = int(data.Orgs), int(data.Keys), int(data.Renewed), int(data.Waiting)
	holders, err := q.CountHolders(ctx)
	if err != nil {
		return out, unavailable("count holders", err)
	}
	out.Holders, out.Shredded = int(holders.Live), int(holders.Shredded)
	return out, nil
}

// Fault is a key that cannot be unwrapped.
type Fault struct {
	// Org is empty for the root. Holder is empty for the root and for an org key.
	Org     id.Org
	Holder  string
	Version int
}

// Verified counts the keys that Verify could unwrap, and those that are corrupt.
type Verified struct{ Root, OrgKeys, DataKeys, Corrupt int }

// Verify unwraps every key in the keyring and calls report for each that is corrupt. It bypasses the cache. It fails if
// the keyring or the key management service is unavailable, because that says nothing about the keys.
func (s *Sealer) Verify(ctx context.Context, report func(Fault)) (Verified, error) {
	v := verifier{sealer: s, report: report}
	if err := v.root(ctx); err != nil {
		return v.done, err
	}
	if err := v.orgKeys(ctx); err != nil {
		return v.done, err
	}
	return v.done, v.dataKeys(ctx)
}

type verifier struct {
	sealer *Sealer
	report func(Fault)
	done   Verified
}

// countKey counts a key as good or corrupt, depending on err. It returns errors that say nothing about the key.
func (v *verifier) countKey(err error, good *int, f Fault) error {
	switch {
	case errors.Is(err, ErrCorrupt):
		v.done.Corrupt++
		v.report(f)
	case err != nil:
		return err
	default:
		*good++
	}
	return nil
}

// root verifies the root, if there is one.
func (v *verifier) root(ctx context.Context) error {
	wrapped, err := v.sealer.rootKey(ctx)
	if errors.Is(err, postgres.ErrNoRows) {
		return nil
	}
	if err != nil {
		return unavailable("read the root", err)
	}
	_, err = v.sealer.unwrapWithKMS(ctx, rootAAD(), wrapped)
	return v.countKey(err, &v.done.Root, Fault{})
}

// orgKeys verifies all org keys, page by page.
func (v *verifier) orgKeys(ctx context.Context) error {
	after := db.OrgKeysRow{}
	for {
		rows, err := v.sealer.queries().OrgKeys(ctx, db.OrgKeysParams{AfterOrg: string(after.OrgID), AfterVersion: after.Version, Count: page})
		if err != nil {
			return unavailable("list org keys", err)
		}
		for _, row := range rows {
			_, err := v.orgCipher(ctx, row.OrgID, row.Version, row.Wrapped)
			if err := v.countKey(err, &v.done.OrgKeys, Fault{Org: row.OrgID, Version: int(row.Version)}); err != nil {
				return err
			}
			after = row
		}
		if len(rows) < page {
			return nil
		}
	}
}

// orgCipher unwraps the stored key, not a cached one.
func (v *verifier) orgCipher(ctx context.Context, org id.Org, version int32, wrapped []byte) (tink.AEAD, error) {
	key, err := v.sealer.unwrapWithKMS(ctx, orgAAD(org, version), wrapped)
	if err != nil {
		return nil, err
	}
	return cipherOf(key)
}

// dataKeys verifies all data keys, page by page. If an org key is corrupt, all data keys that it wraps count as
// corrupt.
func (v *verifier) dataKeys(ctx context.Context) error {
	var after db.AllDataKeysRow
	org := orgCiphers{verifier: v}
	for {
		rows, err := v.sealer.queries().AllDataKeys(ctx, db.AllDataKeysParams{
			AfterOrg: string(after.OrgID), AfterHolder: after.Holder, AfterGeneration: after.Generation, Count: page,
		})
		if err != nil {
			return unavailable("list data keys", err)
		}
		for _, row := range rows {
			cipher, err := org.cipherFor(ctx, row)
			if err == nil {
				err = openDataKey(cipher, row)
			}
			if err := v.countKey(err, &v.done.DataKeys, Fault{row.OrgID, row.Holder, int(row.Generation)}); err != nil {
				return err
			}
			after = row
		}
		if len(rows) < page {
			return nil
		}
	}
}

// orgCiphers keeps the unwrapped keys of one organisation while its data keys are verified. Rows come ordered by
// organisation.
type orgCiphers struct {
	verifier *verifier
	org      id.Org
	opened   map[int32]openedKey
}

type openedKey struct {
	cipher tink.AEAD
	err    error
}

func (o *orgCiphers) cipherFor(ctx context.Context, row db.AllDataKeysRow) (tink.AEAD, error) {
	if o.org != row.OrgID {
		o.org, o.opened = row.OrgID, map[int32]openedKey{}
	}
	key, ok := o.opened[row.OrgVersion]
	if !ok {
		key.cipher, key.err = o.verifier.orgCipher(ctx, row.OrgID, row.OrgVersion, row.OrgWrapped)
		o.opened[row.OrgVersion] = key
	}
	return key.cipher, key.err
}

func openDataKey(org tink.AEAD, row db.AllDataKeysRow) error {
	key, err := unwrapKey(org, row.Wrapped, dataAAD(holderRef{row.OrgID, row.Holder}, row.Generation))
	if err != nil {
		return err
	}
	_, err = cipherOf(key)
	return err
}
