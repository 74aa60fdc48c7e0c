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

// Status is what the keyring holds.
type Status struct {
	// Newest is what the key management service wraps with; KMSError says why it is not known.
	Newest   kms.Ref
	KMSError error
	// Root is what the root is wrapped by; zero if there is none yet.
	Root kms.Ref
	// OrgKeys counts the keys of orgs by what wraps them.
	OrgKeys []OrgKeyCount
	// Orgs have data keys. Renewed data keys are of a second or later generation. Waiting ones are wrapped by an older key of
	// their org.
	Orgs, DataKeys, Renewed, Waiting int
	// Holders have a data key; Shredded had one not long ago.
	Holders, Shredded int
}

// OrgKeyCount is how many keys of orgs are wrapped by one version of one key.
type OrgKeyCount struct {
	By   kms.Ref
	Keys int
}

// Status counts.
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

// Fault is a key that does not open.
type Fault struct {
	// Org is empty for the root, Holder for the key of an org.
	Org     id.Org
	Holder  string
	Version int
}

// Verified says what was opened.
type Verified struct{ Root, OrgKeys, DataKeys, Corrupt int }

// Verify opens every key in the keyring and tells of each that does not open. It fails if the keyring or the key
// management service is away, because then nothing is known.
func (s *Sealer) Verify(ctx context.Context, tell func(Fault)) (Verified, error) {
	v := verifier{sealer: s, tell: tell}
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
	tell   func(Fault)
	done   Verified
}

// judge counts a key; only what is not about the key itself is an error.
func (v *verifier) judge(err error, good *int, f Fault) error {
	switch {
	case errors.Is(err, ErrCorrupt):
		v.done.Corrupt++
		v.tell(f)
	case err != nil:
		return err
	default:
		*good++
	}
	return nil
}

func (v *verifier) root(ctx context.Context) error {
	wrapped, err := v.sealer.rootKey(ctx)
	if errors.Is(err, postgres.ErrNoRows) {
		return nil
	}
	if err != nil {
		return unavailable("read the root", err)
	}
	_, err = v.sealer.askKMS(ctx, rootAAD(), wrapped)
	return v.judge(err, &v.done.Root, Fault{})
}

func (v *verifier) orgKeys(ctx context.Context) error {
	after := db.OrgKeysRow{}
	for {
		rows, err := v.sealer.queries().OrgKeys(ctx, db.OrgKeysParams{AfterOrg: string(after.OrgID), AfterVersion: after.Version, Count: page})
		if err != nil {
			return unavailable("list org keys", err)
		}
		for _, row := range rows {
			_, err := v.orgCipher(ctx, row.OrgID, row.Version, row.Wrapped)
			if err := v.judge(err, &v.done.OrgKeys, Fault{Org: row.OrgID, Version: int(row.Version)}); err != nil {
				return err
			}
			after = row
		}
		if len(rows) < page {
			return nil
		}
	}
}

// orgCipher opens what is stored, not what is remembered.
func (v *verifier) orgCipher(ctx context.Context, org id.Org, version int32, wrapped []byte) (tink.AEAD, error) {
	key, err := v.sealer.askKMS(ctx, orgAAD(org, version), wrapped)
	if err != nil {
		return nil, err
	}
	return cipherOf(key)
}

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
			cipher, err := org.of(ctx, row)
			if err == nil {
				err = openDataKey(cipher, row)
			}
			if err := v.judge(err, &v.done.DataKeys, Fault{row.OrgID, row.Holder, int(row.Generation)}); err != nil {
				return err
			}
			after = row
		}
		if len(rows) < page {
			return nil
		}
	}
}

// orgCiphers keeps the keys of one org while its data keys are gone through.
type orgCiphers struct {
	verifier *verifier
	org      id.Org
	opened   map[int32]openedKey
}

type openedKey struct {
	cipher tink.AEAD
	err    error
}

func (o *orgCiphers) of(ctx context.Context, row db.AllDataKeysRow) (tink.AEAD, error) {
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
