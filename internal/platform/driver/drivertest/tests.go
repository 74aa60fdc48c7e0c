package drivertest

import (
	"context"
	"errors"
	"testing"

	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
)

func testPassword(t *testing.T, s *suite) {
	session := s.session(t)
	who, _, err := s.driver.Probe(t.Context(), s.via, session)
	if err != nil {
		t.Fatal(err)
	}
	if who.ID == "" || who.Username == "" || !who.IsCreator || who.ID != session.Owner(s.Catalog) {
		t.Fatalf("the probe says %+v, the session belongs to %q", who, session.Owner(s.Catalog))
	}
	if session.ExpiresAt(s.Catalog).IsZero() {
		t.Error("the session has no expiry")
	}
}

func testWrongPassword(t *testing.T, s *suite) {
	step, err := s.driver.SignIn(t.Context(), s.via, secret.New(s.Login("ok")), secret.New(s.WrongPassword), driver.Session{})
	if err != nil {
		t.Fatal(err)
	}
	wantFailure(t, step, "invalid_credentials")
	if step.Failure.Retryable || step.Failure.UpstreamCode == "" || step.Failure.UpstreamMessage == "" {
		t.Errorf("the failure is %+v", *step.Failure)
	}
}

func testChallenges(t *testing.T, s *suite) {
	for persona, channel := range map[string]catalog.Channel{"sms": catalog.ChannelSMS, "app": catalog.ChannelApp, "email": catalog.ChannelEmail} {
		step := s.start(t, persona)
		wantChallenge(t, step, channel)
		if step.Challenge.ExpiresAt.IsZero() || len(step.Challenge.Available) == 0 {
			t.Errorf("%s: the challenge is %+v", persona, *step.Challenge)
		}
		if !step.Challenge.Sent {
			step = s.next(t, step, driver.Input{Resend: true})
			wantChallenge(t, step, channel)
			if !step.Challenge.Sent {
				t.Errorf("%s: the code was not sent on request", persona)
			}
		}
		step = s.next(t, step, s.code(s.Wrong))
		if !step.WrongCode {
			t.Fatalf("%s: a wrong code gives %s", persona, describe(step))
		}
		wantChallenge(t, step, channel)
		if step.Challenge.ExpiresAt.IsZero() || len(step.Challenge.Available) == 0 || step.Over() {
			t.Errorf("%s: after a wrong code the challenge is %+v", persona, *step.Challenge)
		}
		wantSession(t, s.next(t, step, s.code(s.Right)))
	}
}

func testChain(t *testing.T, s *suite) {
	step := s.start(t, "sms-email-face")
	wantChallenge(t, step, catalog.ChannelSMS)
	step = s.next(t, step, s.code(s.Right))
	wantChallenge(t, step, catalog.ChannelEmail)
	step = s.next(t, step, s.code(s.Right))
	wantChallenge(t, step, catalog.ChannelFace)
	s.Selfie(t, step.Challenge.Page.Reveal(), true)
	wantSession(t, s.next(t, step, driver.Input{Check: true}))
}

func testContinuation(t *testing.T, s *suite) {
	step := s.start(t, "sms")
	wantChallenge(t, step, catalog.ChannelSMS)
	other := s.Platform.Driver(t)
	stored := step.Next.Encode().Reveal()
	step, err := other.Continue(t.Context(), s.via, driver.DecodeContinuation(secret.New(stored)), s.code(s.Right))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.driver.Probe(t.Context(), s.via, wantSession(t, step)); err != nil {
		t.Fatalf("the session of another node: %v", err)
	}
}

func testResend(t *testing.T, s *suite) {
	step := s.start(t, "sms")
	step = s.next(t, step, driver.Input{Resend: true})
	wantChallenge(t, step, catalog.ChannelSMS)
	wantSession(t, s.next(t, step, s.code(s.Right)))
}

func testSwitch(t *testing.T, s *suite) {
	step := s.next(t, s.start(t, "sms"), driver.Input{Switch: catalog.ChannelApp})
	wantChallenge(t, step, catalog.ChannelApp)
	wantSession(t, s.next(t, step, s.code(s.Right)))
}

func testSelfie(t *testing.T, s *suite) {
	step := s.start(t, "face")
	wantChallenge(t, step, catalog.ChannelFace)
	if step.Challenge.Page.Empty() {
		t.Fatal("the challenge has no page for the selfie")
	}
	step = s.next(t, step, driver.Input{Check: true})
	wantChallenge(t, step, catalog.ChannelFace)
	s.Selfie(t, step.Challenge.Page.Reveal(), false)
	wantFailure(t, s.next(t, step, driver.Input{Check: true}), "face_rejected")
}

// open starts a QR sign-in.
func (s *suite) open(t *testing.T) driver.Step {
	t.Helper()
	step, err := s.driver.OpenQR(t.Context(), s.via)
	if err != nil {
		t.Fatal(err)
	}
	if step.QR == nil || step.QR.URL.Empty() || step.QR.EndsAt.IsZero() || step.QR.ExpiresAt.IsZero() {
		t.Fatalf("want a QR, got %s", describe(step))
	}
	return step
}

func testPhone(t *testing.T, s *suite) {
	step := s.open(t)
	step = s.next(t, step, driver.Input{Check: true})
	if step.QR == nil || step.QR.Scanned {
		t.Fatalf("want a QR that was not scanned, got %s", describe(step))
	}
	s.Phone(t, *step.QR, "scan")
	step = s.next(t, step, driver.Input{Check: true})
	if step.QR == nil || !step.QR.Scanned {
		t.Fatalf("want a QR that was scanned, got %s", describe(step))
	}
	s.Phone(t, *step.QR, "approve")
	session := wantSession(t, s.next(t, step, driver.Input{Check: true}))
	if _, _, err := s.driver.Probe(t.Context(), s.via, session); err != nil {
		t.Fatal(err)
	}
}

func testDenied(t *testing.T, s *suite) {
	step := s.open(t)
	s.Phone(t, *step.QR, "deny")
	wantFailure(t, s.next(t, step, driver.Input{Check: true}), "mobile_denied")
}

func testFan(t *testing.T, s *suite) {
	who, _, err := s.driver.Probe(t.Context(), s.via, wantSession(t, s.start(t, "fan")))
	if err != nil {
		t.Fatal(err)
	}
	if who.IsCreator {
		t.Fatal("a fan is reported as a creator")
	}
}

func testStored(t *testing.T, s *suite) {
	session, err := driver.DecodeSession(secret.New(s.session(t).Encode().Reveal()))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Platform.Driver(t).Probe(t.Context(), s.via, session); err != nil {
		t.Fatal(err)
	}
}

func testWrite(t *testing.T, s *suite) {
	session := s.session(t)
	socket, err := s.driver.Listen(t.Context(), s.via, session)
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	if _, err := s.call(t.Context(), t, session, s.Write, s.WriteArgs); err != nil {
		t.Fatal(err)
	}
	e := Await(t, socket, s.Event)
	if e.UpstreamID == "" || e.At.IsZero() || len(e.Data) == 0 {
		t.Errorf("the event is %+v", e)
	}
	a, err := s.call(t.Context(), t, session, s.Read, "{}")
	if err != nil {
		t.Fatal(err)
	}
	if !s.Shows(a.Result) {
		t.Error("the read does not show what was written")
	}
}

func testMissed(t *testing.T, s *suite) {
	session := s.session(t)
	before, err := s.driver.Since(t.Context(), s.via, session, "")
	if errors.Is(err, driver.ErrNoSocket) {
		t.Skip("the platform cannot list missed events")
	}
	if err != nil {
		t.Fatal(err)
	}
	after := before.Last
	for range 3 {
		if _, err := s.call(t.Context(), t, session, s.Write, s.WriteArgs); err != nil {
			t.Fatal(err)
		}
	}
	missed, err := s.driver.Since(t.Context(), s.via, session, after)
	if err != nil {
		t.Fatal(err)
	}
	n, last := 0, ""
	if missed.Newest != "" && missed.Newest != missed.Last {
		t.Errorf("the newest event is %q, and the last one %q", missed.Newest, missed.Last)
	}
	for _, e := range missed.Events {
		if e.Kind == s.Event {
			n++
		}
		if len(e.UpstreamID) < len(last) || len(e.UpstreamID) == len(last) && e.UpstreamID <= last {
			t.Errorf("event %s follows %s", e.UpstreamID, last)
		}
		last = e.UpstreamID
	}
	if n != 3 {
		t.Fatalf("%d of 3 events were listed", n)
	}
	again, err := s.driver.Since(t.Context(), s.via, session, missed.Last)
	if err != nil || len(again.Events) != 0 {
		t.Fatalf("after the last event: %d events, %v", len(again.Events), err)
	}
}

func testSignOut(t *testing.T, s *suite) {
	session := s.session(t)
	if err := s.driver.SignOut(t.Context(), s.via, session); err != nil {
		t.Fatal(err)
	}
	_, _, err := s.driver.Probe(t.Context(), s.via, session)
	if refused, ok := errors.AsType[*driver.Refused](err); !ok || refused.Kind != catalog.RefusedSession {
		t.Fatalf("after signing out a probe gives %v", err)
	}
	if err := s.driver.SignOut(t.Context(), s.via, session); err != nil {
		t.Fatalf("signing out again: %v", err)
	}
	if _, err := s.driver.Listen(t.Context(), s.via, session); err == nil {
		t.Fatal("an ended session can listen")
	}
}

func testNotFound(t *testing.T, s *suite) {
	_, err := s.call(t.Context(), t, s.session(t), "users.get", `{"userId":"1"}`)
	if refused, ok := errors.AsType[*driver.Refused](err); !ok || refused.Kind != catalog.RefusedNotFound || refused.Code == "" {
		t.Fatalf("an unknown user gives %v", err)
	}
}

func testCancelled(t *testing.T, s *suite) {
	session := s.session(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.call(ctx, t, session, s.Read, "{}"); !errors.Is(err, context.Canceled) {
		t.Fatalf("a cancelled call gives %v", err)
	}
	if _, err := s.driver.SignIn(ctx, s.via, secret.New(s.Login("ok")), secret.New(s.Password), driver.Session{}); !errors.Is(err, context.Canceled) {
		t.Fatalf("a cancelled sign-in gives %v", err)
	}
}
