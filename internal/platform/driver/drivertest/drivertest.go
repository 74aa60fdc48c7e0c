// Package drivertest is the conformance suite for drivers: tests that every driver must pass against a real platform.
// Start with Run. Caller, Method and Await are also useful in other tests of drivers.
package drivertest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
)

// Platform is a driver under test with its platform, and the means to act on that platform.
type Platform struct {
	// Driver returns a new driver. Two drivers share nothing but the platform, like two nodes.
	Driver  func(testing.TB) driver.Driver
	Catalog *catalog.Catalog
	Region  string
	// Login returns the e-mail address of a new creator with a persona, which decides how the sign-in proceeds: "ok",
	// "sms", "app", "email", "face", "sms-email-face" or "fan".
	Login func(persona string) string
	// Right and Wrong are codes. Password is accepted, WrongPassword is not.
	Right, Wrong, Password, WrongPassword string
	// Phone acts on the creator's phone. The action is "scan", "approve" or "deny".
	Phone func(t testing.TB, qr driver.QR, action string)
	// Selfie takes the selfie that a challenge's page asks for.
	Selfie func(t testing.TB, page string, passed bool)
	// Write is a method that changes something, Event the event that it causes, and Read a method that shows the
	// change.
	Write, Read, Event string
	WriteArgs          string
	Shows              func(result []byte) bool
}

// suite is the state of one conformance test.
type suite struct {
	*Platform
	driver driver.Driver
	via    driver.Via
}

// Run runs the suite.
func Run(t *testing.T, p *Platform) {
	tests := map[string]func(*testing.T, *suite){
		"a password signs in":                       testPassword,
		"a wrong password ends it":                  testWrongPassword,
		"each challenge can be answered":            testChallenges,
		"a chain of challenges can be answered":     testChain,
		"any node can take the next step":           testContinuation,
		"a code can be sent again":                  testResend,
		"the channel can be switched":               testSwitch,
		"the platform decides about a selfie":       testSelfie,
		"a phone approves":                          testPhone,
		"a phone denies":                            testDenied,
		"a user who is not a creator is recognised": testFan,
		"a session survives being stored":           testStored,
		"a write is seen by a read and by an event": testWrite,
		"missed events can be listed":               testMissed,
		"a session that was signed out is refused":  testSignOut,
		"an unknown user is not found":              testNotFound,
		"a cancelled context ends a call":           testCancelled,
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, &suite{Platform: p, driver: p.Driver(t), via: driver.Via{Region: p.Region, Account: "acct_conformance"}})
		})
	}
}

// start signs in with a password and returns the first step.
func (s *suite) start(t *testing.T, persona string) driver.Step {
	t.Helper()
	step, err := s.driver.SignIn(t.Context(), s.via, secret.New(s.Login(persona)), secret.New(s.Password), driver.Session{})
	if err != nil {
		t.Fatal(err)
	}
	return step
}

// next takes the next step, which must be possible.
func (s *suite) next(t *testing.T, from driver.Step, in driver.Input) driver.Step {
	t.Helper()
	if from.Failure != nil {
		t.Fatalf("the sign-in has ended: %+v", *from.Failure)
	}
	step, err := s.driver.Continue(t.Context(), s.via, from.Next, in)
	if err != nil {
		t.Fatal(err)
	}
	return step
}

// session signs in a creator who gets no challenge.
func (s *suite) session(t *testing.T) driver.Session {
	t.Helper()
	step := s.start(t, "ok")
	if step.Session == nil {
		t.Fatalf("no session: %s", describe(step))
	}
	return *step.Session
}

// code returns the input that answers a challenge.
func (s *suite) code(text string) driver.Input { return driver.Input{Code: secret.New(text)} }

func describe(s driver.Step) string {
	switch {
	case s.Failure != nil:
		return "failure " + s.Failure.Code
	case s.Challenge != nil:
		return "challenge " + string(s.Challenge.Channel)
	case s.QR != nil:
		return "qr"
	case s.Session != nil:
		return "session"
	}
	return "nothing"
}

func wantSession(t *testing.T, step driver.Step) driver.Session {
	t.Helper()
	if step.Session == nil {
		t.Fatalf("want a session, got %s", describe(step))
	}
	return *step.Session
}

func wantChallenge(t *testing.T, step driver.Step, channel catalog.Channel) {
	t.Helper()
	if step.Challenge == nil || step.Challenge.Channel != channel {
		t.Fatalf("want the challenge %s, got %s", channel, describe(step))
	}
}

func wantFailure(t *testing.T, step driver.Step, code string) {
	t.Helper()
	if step.Failure == nil || step.Failure.Code != code {
		t.Fatalf("want the failure %s, got %s", code, describe(step))
	}
}

func (s *suite) call(ctx context.Context, t *testing.T, session driver.Session, name, args string) (driver.Answer, error) {
	t.Helper()
	return Caller{s.driver, s.Catalog, s.via, session}.Call(ctx, t, name, args)
}

// Caller is a signed-in creator.
type Caller struct {
	Driver  driver.Calls
	Catalog *catalog.Catalog
	Via     driver.Via
	Session driver.Session
}

// Call calls a method by its full name, with arguments as JSON.
func (c Caller) Call(ctx context.Context, t testing.TB, name, args string) (driver.Answer, error) {
	t.Helper()
	m := Method(t, c.Catalog, name)
	parsed, err := m.FromObject([]byte(args), false)
	if err != nil {
		t.Fatalf("%s %s: %v", name, args, err)
	}
	return c.Driver.Call(ctx, c.Via, c.Session, m, parsed)
}

// Method returns a method by its full name.
func Method(t testing.TB, c *catalog.Catalog, name string) *catalog.Method {
	t.Helper()
	for _, m := range c.Methods() {
		if m.ID() == name {
			return m
		}
	}
	t.Fatalf("the catalog has no %s", name)
	return nil
}

// Await reads a socket until an event of a kind arrives.
func Await(t testing.TB, socket *driver.Socket, kind string) catalog.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for {
		e, err := socket.Next(ctx)
		switch {
		case err == nil && e.Kind == kind:
			return e
		case errors.Is(err, catalog.ErrUnknownFrame):
		case err != nil:
			t.Fatalf("waiting for %s: %v", kind, err)
		}
	}
}
