// Package upstreamtest says what every driver must do, as tests that run against a real platform.
package upstreamtest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
)

// Platform is a driver with a platform behind it, and what a test may do on that platform.
type Platform struct {
	// Driver makes a driver; two of them share nothing but the platform, as two nodes do.
	Driver func(testing.TB) driver.Driver
	// Catalog is what the drivers were made of.
	Catalog *catalog.Catalog
	// Region is one that has egress.
	Region string
	// Login is the address of a new creator who signs in in this way: "ok", "sms", "app", "email", "face", "sms-email-face", "fan".
	Login func(persona string) string
	// Right and Wrong are codes; Password is right and WrongPassword is not.
	Right, Wrong, Password, WrongPassword string
	// Phone does on the creator's phone what is asked: "scan", "approve", "deny".
	Phone func(t testing.TB, qr driver.QR, action string)
	// Selfie takes the selfie that a challenge's page asks for.
	Selfie func(t testing.TB, page string, passed bool)
	// Write is a call that changes something, and the event it causes; Read one that shows it.
	Write, Read, Event string
	WriteArgs          string
	// Shows says whether a result of Read has what Write did.
	Shows func(result []byte) bool
}

// suite is one creator's way through a driver.
type suite struct {
	*Platform
	driver driver.Driver
	via    driver.Via
}

// Run runs all of it.
func Run(t *testing.T, p *Platform) {
	tests := map[string]func(*testing.T, *suite){
		"a password signs in":                       testPassword,
		"a wrong password ends it":                  testWrongPassword,
		"each challenge can be met":                 testChallenges,
		"a chain of challenges can be met":          testChain,
		"any node can take the next step":           testContinuation,
		"a code can be asked for again":             testResend,
		"another channel can be asked for":          testSwitch,
		"a selfie is believed only to the platform": testSelfie,
		"a phone approves":                          testPhone,
		"a phone denies":                            testDenied,
		"who is no creator is told apart":           testFan,
		"a session survives being stored":           testStored,
		"a write is seen by a read and by an event": testWrite,
		"missed events can be listed":               testMissed,
		"a session that was ended is dead":          testSignOut,
		"an unknown thing is not found":             testNotFound,
		"a cancelled context ends a call":           testCancelled,
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, &suite{Platform: p, driver: p.Driver(t), via: driver.Via{Region: p.Region, Account: "acct_conformance"}})
		})
	}
}

// start signs in with a password and gives the first step.
func (s *suite) start(t *testing.T, persona string) driver.Step {
	t.Helper()
	step, err := s.driver.SignIn(t.Context(), s.via, secret.New(s.Login(persona)), secret.New(s.Password))
	if err != nil {
		t.Fatal(err)
	}
	return step
}

// next takes a step that must be taken.
func (s *suite) next(t *testing.T, from driver.Step, in driver.Input) driver.Step {
	t.Helper()
	if from.Failure != nil {
		t.Fatalf("the sign-in is over: %+v", *from.Failure)
	}
	step, err := s.driver.Continue(t.Context(), s.via, from.Next, in)
	if err != nil {
		t.Fatal(err)
	}
	return step
}

// session signs a creator in who needs no challenge.
func (s *suite) session(t *testing.T) driver.Session {
	t.Helper()
	step := s.start(t, "ok")
	if step.Session == nil {
		t.Fatalf("no session: %s", describe(step))
	}
	return *step.Session
}

// code is the input that answers a challenge.
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

// call calls a method by name.
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

// Method finds a method by its full name.
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

// Await reads a socket until an event of a kind comes.
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
