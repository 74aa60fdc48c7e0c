package seal_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/vault/seal"
)

func receipt() seal.Receipt {
	return seal.Receipt{
		Account: id.New[id.Account](), Org: newOrg(), DataKey: "3f1c", Keyring: seal.KeyringShared,
		Covers: []string{"session", "events"}, PurgedAt: time.Date(2026, 11, 15, 8, 30, 0, 120_000_000, time.UTC),
	}
}

// A receipt is verified without any service, and stays valid if a database reorders and indents it.
func TestAReceiptIsVerifiedOffline(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	want := receipt()
	signed, err := s.node().SignReceipt(t.Context(), want)
	must.OK(t, err)
	public, err := s.node().PublicKey(t.Context())
	must.OK(t, err)
	key, err := seal.ParsePublicKey(public.String() + "\n")
	if err != nil || key.ID() != public.ID() {
		t.Fatal(err)
	}
	forms := [][]byte{signed, indent(t, signed)}
	var stored []byte
	must.OK(t, s.db.Pool().QueryRow(t.Context(), "SELECT $1::jsonb", signed).Scan(&stored))
	for _, form := range append(forms, stored) {
		if got, err := seal.VerifyReceipt(form, key); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v", form, got, err)
		}
	}
	other, err := newFixture(t).node().PublicKey(t.Context())
	must.OK(t, err)
	if _, err := seal.VerifyReceipt(signed, other); !errors.Is(err, seal.ErrReceipt) {
		t.Errorf("key of another installation: %v", err)
	}
	if _, err := s.node().SignReceipt(t.Context(), seal.Receipt{}); err == nil {
		t.Error("an empty receipt was signed")
	}
}

func indent(t *testing.T, text []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	must.OK(t, json.Indent(&out, text, "", "  "))
	return out.Bytes()
}

// Every change of a receipt's content is noticed.
func TestAChangedReceiptIsNotValid(t *testing.T) {
	t.Parallel()
	node := newFixture(t).node()
	want := receipt()
	signed, err := node.SignReceipt(t.Context(), want)
	must.OK(t, err)
	key, err := node.PublicKey(t.Context())
	must.OK(t, err)
	for bit := range len(signed) * 8 {
		flipped := slices.Clone(signed)
		flipped[bit/8] ^= 1 << (bit % 8)
		if got, err := seal.VerifyReceipt(flipped, key); err == nil && !reflect.DeepEqual(got, want) {
			t.Errorf("%s was accepted", flipped)
		} else if err != nil && err != seal.ErrReceipt { //nolint:errorlint // it must be the error itself, not wrapped
			t.Error(err)
		}
	}
	for _, change := range [][2]string{
		{`"shared"`, `"separate"`}, {`"3f1c"`, `"3f1d"`}, {`"covers":`, `"more":1,"covers":`}, {`"covers":`, `"format":2,"covers":`},
		{`30:00.120Z`, `30:00.121Z`}, {`"events"`, `"credentials"`}, {string(want.Account), string(id.New[id.Account]())},
	} {
		changed := strings.Replace(string(signed), change[0], change[1], 1)
		if changed == string(signed) {
			t.Fatalf("%s is not in %s", change[0], signed)
		}
		if _, err := seal.VerifyReceipt([]byte(changed), key); !errors.Is(err, seal.ErrReceipt) {
			t.Errorf("%s: %v", changed, err)
		}
	}
	for _, bad := range []string{"", "{}", "null", string(signed) + "{}", strings.Repeat(" ", 1<<17) + string(signed)} {
		if _, err := seal.VerifyReceipt([]byte(bad), key); !errors.Is(err, seal.ErrReceipt) {
			t.Errorf("%.40q: %v", bad, err)
		}
	}
	if _, err := seal.VerifyReceipt(signed, nil); !errors.Is(err, seal.ErrReceipt) {
		t.Errorf("no key: %v", err)
	}
}

// The signature is over the canonical JSON (RFC 8785) of the receipt without its signature, so that any program can check
// it. For ASCII texts Go's encoding of a map is that form.
func TestReceiptIsSignedInCanonicalJSON(t *testing.T) {
	t.Parallel()
	node := newFixture(t).node(func(d *seal.Deps) {
		d.Separate = func(context.Context) (bool, error) { return true, nil }
	})
	signed, err := node.SignReceipt(t.Context(), receipt())
	must.OK(t, err)
	keys, err := node.ReceiptKeys(t.Context())
	must.OK(t, err)
	var members map[string]any
	must.OK(t, json.Unmarshal(signed, &members))
	if len(keys) != 1 || members["keyId"] != keys[0].Public.ID() || keys[0].CreatedAt.IsZero() || members["keyring"] != "separate" {
		t.Fatalf("%s, %+v", signed, keys)
	}
	signature, err := base64.RawURLEncoding.DecodeString(members["signature"].(string))
	must.OK(t, err)
	delete(members, "signature")
	text, err := json.Marshal(members)
	must.OK(t, err)
	if !ed25519.Verify(ed25519.PublicKey(keys[0].Public), text, signature) {
		t.Errorf("the signature is not of %s", text)
	}
}

// Receipts of the second format, in which the receipt was a member, stay valid.
func TestReceiptOfTheSecondFormatIsVerified(t *testing.T) {
	t.Parallel()
	public, private, err := ed25519.GenerateKey(nil)
	must.OK(t, err)
	const text = `{"accountId":"acct_1","blobs":2,"covers":["session"],"dataKeyId":"3f1c","generations":1,"orgId":"org_1","purgedAt":"2026-11-15T08:30:00.123Z"}`
	signature := base64.StdEncoding.EncodeToString(ed25519.Sign(private, []byte("sd1receipt\n"+text)))
	signed := fmt.Sprintf(`{"format":2,"receipt":%s,"keyId":"%s","signature":"%s"}`, text, seal.PublicKey(public).ID(), signature)
	want := seal.Receipt{
		Account: "acct_1", Org: "org_1", DataKey: "3f1c", Covers: []string{"session"}, PurgedAt: time.Date(2026, 11, 15, 8, 30, 0, 123000000, time.UTC),
	}
	if got, err := seal.VerifyReceipt(indent(t, []byte(signed)), seal.PublicKey(public)); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	changed := strings.Replace(signed, `["session"]`, `["events"]`, 1)
	if _, err := seal.VerifyReceipt([]byte(changed), seal.PublicKey(public)); !errors.Is(err, seal.ErrReceipt) {
		t.Error(err)
	}
}

// Receipts in the old format, with other names of members, stay valid.
func TestReceiptOfTheOldFormatIsVerified(t *testing.T) {
	t.Parallel()
	public, private, err := ed25519.GenerateKey(nil)
	must.OK(t, err)
	const text = `{"account_id":"acct_1","blobs":2,"data_key_id":"3f1c","generations":1,"org_id":"org_1","purged_at":"2026-11-15T08:30:00.123456Z"}`
	signature := base64.StdEncoding.EncodeToString(ed25519.Sign(private, []byte("sd1receipt\n"+text)))
	signed := fmt.Sprintf(`{"format":1,"receipt":%s,"key_id":"%s","signature":"%s"}`, text, seal.PublicKey(public).ID(), signature)
	want := seal.Receipt{
		Account: "acct_1", Org: "org_1", DataKey: "3f1c", PurgedAt: time.Date(2026, 11, 15, 8, 30, 0, 123456000, time.UTC),
	}
	for _, form := range [][]byte{[]byte(signed), indent(t, []byte(signed))} {
		if got, err := seal.VerifyReceipt(form, seal.PublicKey(public)); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v", form, got, err)
		}
	}
	changed := strings.Replace(signed, `"blobs":2`, `"blobs":3`, 1)
	if _, err := seal.VerifyReceipt([]byte(changed), seal.PublicKey(public)); !errors.Is(err, seal.ErrReceipt) {
		t.Error(err)
	}
}

func TestParsePublicKeyRejectsOtherTexts(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "ed25519:", "ed25519:AAAA", "AAAA", strings.Repeat("A", 44), strings.Repeat("+", 43)} {
		if _, err := seal.ParsePublicKey(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

// Only a receipt that was signed is accepted, however it is formatted.
func FuzzVerifyReceipt(f *testing.F) {
	node := newFixture(f).node()
	want := receipt()
	signed, err := node.SignReceipt(f.Context(), want)
	must.OK(f, err)
	key, err := node.PublicKey(f.Context())
	must.OK(f, err)
	f.Add(signed)
	f.Add([]byte(`{"format":1,"receipt":{},"key_id":"` + key.ID() + `","signature":""}`))
	f.Add([]byte(`{"format":2,"receipt":{},"keyId":"` + key.ID() + `","signature":""}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if got, err := seal.VerifyReceipt(text, key); err == nil && !reflect.DeepEqual(got, want) {
			t.Fatalf("%s was accepted as %+v", text, got)
		}
	})
}
