package member

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/apikey"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/tenant/member/internal/db"
)

// A tool signs in by RFC 8628: it gets a code for itself and one that a person types into the dashboard, and polls until
// the person has approved it. The result is a key with the scopes of the person's role.

// Device holds the codes of a tool that asks to be signed in.
type Device struct {
	// Code is the tool's own. UserCode is what the person types.
	Code     secret.String
	UserCode string
}

const (
	// DeviceTTL is how long a person can approve a tool.
	DeviceTTL = 10 * time.Minute
	// DevicePoll is the least time between two polls at first.
	DevicePoll = 5 * time.Second
	// slowDown is added to the interval of a tool that polls too fast.
	slowDown = 5 * time.Second
	// maxMachine bounds the name that a tool gives, in characters.
	maxMachine = 60
)

// Errors of RedeemDevice.
var (
	ErrDevicePending = errors.New("the person has not decided yet")
	ErrDeviceEarly   = errors.New("the tool polls too fast")
	ErrDeviceExpired = errors.New("the code has expired")
	ErrDeviceUnknown = errors.New("no tool has this code")
	ErrDeviceDenied  = errors.New("the person has refused")
)

// userLetters are those of user codes: no vowels, so that no words appear, and none that look alike. 20^8 codes that live
// for ten minutes, and few tries per network and person, make guessing hopeless.
const (
	userLetters    = "BCDFGHJKLMNPQRSTVWXZ"
	userCodeLength = 8
)

func newUserCode() string {
	var code strings.Builder
	for i := range userCodeLength {
		if i == userCodeLength/2 {
			code.WriteByte('-')
		}
		n, _ := rand.Int(rand.Reader, big.NewInt(int64(len(userLetters)))) // never fails
		code.WriteByte(userLetters[n.Int64()])
	}
	return code.String()
}

// hashUserCode returns the hash of a code as a person typed it: in any case, with or without the hyphen and spaces.
func hashUserCode(text string) hash {
	letters := strings.Map(func(r rune) rune {
		if r == '-' || r == ' ' {
			return -1
		}
		return r
	}, strings.ToUpper(text))
	return sha256.Sum256([]byte(letters))
}

// StartDevice returns codes for a tool. machine and address are shown to the person: the name that the tool gave, and the
// network from which it asks.
func (s *Members) StartDevice(ctx context.Context, machine, address string) (Device, error) {
	q := db.New(s.deps.DB)
	if err := q.TrimDevices(ctx); err != nil {
		return Device{}, err
	}
	machine = cleanText(machine, maxMachine)
	for {
		d := Device{newToken(), newUserCode()}
		own, typed := hashToken(d.Code), hashUserCode(d.UserCode)
		added, err := q.AddDevice(ctx, db.AddDeviceParams{
			Hash: own[:], UserHash: typed[:], Machine: machine, Address: address,
			TtlSec: int32(DeviceTTL / time.Second), IntervalSec: int32(DevicePoll / time.Second),
		})
		if err != nil || added > 0 {
			return d, err
		}
	}
}

// DeviceRequest is a tool that waits for a person's decision.
type DeviceRequest struct {
	Machine, Address string
	CreatedAt        time.Time
}

// FindDevice returns the tool with a user code. It returns ErrDeviceUnknown for a code that does not exist, has expired or
// was decided about already.
func (s *Members) FindDevice(ctx context.Context, userCode string) (DeviceRequest, error) {
	typed := hashUserCode(userCode)
	row, err := db.New(s.deps.DB).DeviceByUserCode(ctx, typed[:])
	if errors.Is(err, postgres.ErrNoRows) {
		return DeviceRequest{}, ErrDeviceUnknown
	}
	return DeviceRequest{row.Machine, row.Address, row.CreatedAt}, err
}

// ApproveDevice lets the tool with a user code act in an org with the role of a person, who must be a member.
func (s *Members) ApproveDevice(ctx context.Context, person id.Person, owner id.Org, userCode string) error {
	if _, err := s.Get(ctx, owner, person); err != nil {
		return err
	}
	return s.decideDevice(ctx, userCode, db.DecideDeviceParams{Decision: "approved", PersonID: person, ApprovedOrg: owner})
}

// DenyDevice refuses the tool with a user code.
func (s *Members) DenyDevice(ctx context.Context, person id.Person, userCode string) error {
	return s.decideDevice(ctx, userCode, db.DecideDeviceParams{Decision: "denied", PersonID: person})
}

func (s *Members) decideDevice(ctx context.Context, userCode string, p db.DecideDeviceParams) error {
	typed := hashUserCode(userCode)
	p.UserHash = typed[:]
	decided, err := db.New(s.deps.DB).DecideDevice(ctx, p)
	if err == nil && decided == 0 {
		err = ErrDeviceUnknown
	}
	return err
}

// RedeemDevice returns the key of a tool that a person has approved, once. by needs the request and the hashed address.
func (s *Members) RedeemDevice(ctx context.Context, by audit.By, code secret.String) (apikey.Key, secret.String, error) {
	var (
		key     apikey.Key
		plain   secret.String
		outcome error
	)
	own := hashToken(code)
	err := s.deps.DB.Tx(ctx, func(tx postgres.Tx) error {
		q := db.New(tx)
		row, err := q.LockDevice(ctx, own[:])
		switch {
		case errors.Is(err, postgres.ErrNoRows):
			outcome = ErrDeviceUnknown
			return nil
		case err != nil:
			return err
		}
		if outcome = pollOutcome(row); outcome != nil {
			more := int32(0)
			if errors.Is(outcome, ErrDeviceEarly) {
				more = int32(slowDown / time.Second)
			}
			return q.PollDevice(ctx, db.PollDeviceParams{Hash: own[:], MoreSec: more})
		}
		if key, plain, err = s.issueToDevice(ctx, tx, by, row); err != nil {
			return err
		}
		return q.DropDevice(ctx, own[:])
	})
	if errors.Is(err, memberNotFound()) {
		err = ErrDeviceDenied // The person has left since.
	}
	return key, plain, errors.Join(err, outcome)
}

// pollOutcome returns why a tool gets no key; nil if it gets one.
func pollOutcome(row db.LockDeviceRow) error {
	switch {
	case row.Expired:
		return ErrDeviceExpired
	case row.Decision == "denied":
		return ErrDeviceDenied
	case row.Early:
		return ErrDeviceEarly
	case row.Decision == "":
		return ErrDevicePending
	}
	return nil
}

func (s *Members) issueToDevice(ctx context.Context, tx postgres.Tx, by audit.By, row db.LockDeviceRow) (apikey.Key, secret.String, error) {
	o, err := s.deps.Orgs.Lock(ctx, tx, row.ApprovedOrg)
	if err != nil {
		return apikey.Key{}, secret.String{}, err
	}
	who, err := getMember(ctx, tx, o.ID, row.PersonID)
	if err != nil {
		return apikey.Key{}, secret.String{}, err
	}
	if err := o.Refusal(); err != nil {
		return apikey.Key{}, secret.String{}, err
	}
	by.Kind, by.ID, by.Label, by.Action = audit.ActorMember, string(who.ID), who.Email, "key.mint"
	label := fmt.Sprintf("%s on %s", who.Email, row.Machine)
	if row.Machine == "" {
		label = who.Email + " on a device"
	}
	return s.deps.Keys.IssueTo(ctx, tx, o, by, apikey.Tool{Person: who.ID, Scopes: who.Role.Scopes(), Label: cleanText(label, apikey.MaxLabel)})
}
