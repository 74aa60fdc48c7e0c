package driver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
	"github.com/stagedoor/stagedoor/internal/platform/driver/drivertest"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

// effects are writes and what must be observable afterwards. A key is a method, optionally with a slash and a
// description of the case.
type effects map[string]effect

// effect is one write. Its texts may contain references: $fan:3 is the id of the third seeded fan (see kinds), $me
// the creator's id, $origin the platform's origin, $ago:30 the time and $day:30 the date thirty days ago. $.id is a
// field of the write's result, $1.id a field of the result of its first preparatory step.
type effect struct {
	first []step
	args  string
	wait  []string // events to wait for before reading; nil means those that the method declares
	see   []observation
	// unseen is the reason why no read can show the effect. inside then inspects the platform itself: it must return
	// want, which it must not have returned before the write.
	unseen string
	inside func(c *world.Creator, id func(string) int64) any
	want   any
	also   func(t *testing.T, s *effectFixture)
}

// step is a call of a method. "!kind" triggers an event in the sandbox and returns its data, "put" uploads a part, and
// "session" signs in again.
type step struct {
	do, args string
	wait     []string
}

// noEvents is for steps that cause no event yet, although the method declares one.
var noEvents = []string{}

// observation is a read, and pairs of a place in its result and the expected value. The value must be different
// before the write.
type observation struct {
	read, args string
	wants      []any
}

func shows(read, args string, wants ...any) observation { return observation{read, args, wants} }

// notFound expects that a read finds nothing any more.
func notFound(read, args string) observation { return shows(read, args, "refused", "not_found") }

// returns checks the result of the write itself, emits the event that it caused.
func returns(wants ...any) observation            { return observation{"", "", wants} }
func emits(kind string, wants ...any) observation { return observation{"!" + kind, "", wants} }

// Expectations other than a plain value.
type (
	absence  struct{}             // there is no value
	presence struct{}             // there is some value
	change   func(before any) any // the value follows from the one before the write
	still    struct{ value any }  // the value may be the same before the write
	sameAs   string               // the value equals the one at this place of the write's result or the event's data
)

var (
	absent  absence
	present presence
	// theResult is the whole result of the write.
	theResult = sameAs("")
)

// plus expects a number that grew by n.
func plus(n int64) change {
	return func(before any) any {
		if _, ok := before.(json.Number); !ok {
			return absent
		}
		return json.Number(strconv.FormatInt(integer(before)+n, 10))
	}
}

// integer returns a number of a document, or 0 if the value is not one.
func integer(value any) int64 {
	number, _ := value.(json.Number)
	n, err := number.Int64()
	if err != nil {
		return 0
	}
	return n
}

// later expects a time that moved.
func later(by time.Duration) change {
	return func(before any) any {
		text, _ := before.(string)
		was, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return absent
		}
		return was.Add(by).Format("2006-01-02T15:04:05.000Z")
	}
}

// kinds are the names of seeded objects in references.
var kinds = map[string]row.Kind{
	"fan": row.KindPerson, "list": row.KindList, "message": row.KindMessage, "mass": row.KindMass, "post": row.KindPost,
	"comment": row.KindComment, "label": row.KindLabel, "story": row.KindStory, "highlight": row.KindHighlight, "stream": row.KindStream,
	"media": row.KindMedia, "folder": row.KindFolder, "draft": row.KindDraft, "tracking": row.KindTrackingLink, "trial": row.KindTrialLink,
	"promotion": row.KindPromotion, "bundle": row.KindBundle, "social": row.KindSocialLink, "form": row.KindForm, "option": row.KindPollOption,
	"payout": row.KindPayout, "tx": row.KindTx, "notice": row.KindNotice,
}

// effectFixture runs one effect on a creator of its own.
type effectFixture struct {
	*fixture
	login   string
	session driver.Session
	socket  *driver.Socket
	other   driver.Session  // of the step "session"
	results map[string]any  // of the steps by number, and of the write
	events  []catalog.Event // received on the socket
	from    int64           // id of the last event of earlier steps
}

func (r *fixture) newEffectFixture() *effectFixture {
	s := &effectFixture{fixture: r, login: r.login("ok"), results: map[string]any{}}
	s.session = r.session(s.login)
	s.socket = r.listen(s.session)
	return s
}

func TestEveryWriteIsSeenByAReadAfterwards(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	all := effects{}
	for _, part := range []effects{peopleEffects, listEffects, messageEffects, massEffects, postEffects, publishEffects, queueEffects, libraryEffects, moneyEffects, settingsEffects} {
		maps.Copy(all, part)
	}
	missing := map[string]bool{}
	for _, m := range r.catalog.Methods() {
		if m.Access == catalog.Write {
			missing[m.ID()] = true
		}
	}
	if len(missing) != 127 {
		t.Errorf("the catalog has %d writes, want 127", len(missing))
	}
	for name, one := range all {
		method, _, _ := strings.Cut(name, "/")
		if drivertest.Method(t, r.catalog, method).Access != catalog.Write {
			t.Errorf("%s is not a write", name)
		}
		if reads := slices.ContainsFunc(one.see, func(s observation) bool { return s.read != "" && s.read[0] != '!' }); reads == (one.unseen != "") {
			t.Errorf("%s: an effect needs either a read that shows it or a reason why there is none", name)
		}
		delete(missing, method)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r.forTest(t).newEffectFixture().run(t, method, &one)
		})
	}
	if len(missing) > 0 {
		t.Errorf("no effects for %v", slices.Sorted(maps.Keys(missing)))
	}
}

// run prepares, takes the values before the write, writes, and checks all observations.
func (s *effectFixture) run(t *testing.T, act string, e *effect) {
	t.Helper()
	for n, one := range e.first {
		s.results[strconv.Itoa(n+1)] = s.do(one)
	}
	before := make([]any, len(e.see))
	for n, one := range e.see {
		if !strings.Contains(one.args, "$.") && one.read != "" && one.read[0] != '!' {
			before[n] = s.read(one.read, s.fill(one.args))
		}
	}
	was := s.inside(e)
	s.results[""] = s.do(step{act, e.args, e.wait})
	for n, one := range e.see {
		s.checkObservation(&one, before[n])
	}
	if want := fmt.Sprint(s.expectedValue(e.want)); e.inside != nil && (was == want || s.inside(e) != want) {
		t.Errorf("the platform had %s and has %s, want %s", was, s.inside(e), want)
	}
	if e.also != nil {
		e.also(t, s)
	}
}

// checkObservation compares an observation with the expected values.
func (s *effectFixture) checkObservation(one *observation, before any) {
	s.t.Helper()
	var shown any
	switch {
	case one.read == "":
		shown = s.results[""]
	case one.read[0] == '!':
		shown = s.event(one.read[1:], one.wants)
	default:
		shown = s.read(one.read, s.fill(one.args))
	}
	for pair := range slices.Chunk(one.wants, 2) {
		place := s.fill(pair[0].(string))
		was, is := withoutLastSeen(at(before, place)), withoutLastSeen(at(shown, place))
		if want, ok := s.matches(pair[1], was, is); !ok {
			s.t.Errorf("%s: %s is %v, want %v (before: %v)", one.read, place, is, want, was)
		} else if _, stays := pair[1].(still); before != nil && !stays && reflect.DeepEqual(was, is) {
			s.t.Errorf("%s: %s was %v before too, so the observation proves nothing", one.read, place, was)
		}
	}
}

// matches reports whether a value is as expected, and returns the expected value for messages.
func (s *effectFixture) matches(want, was, is any) (any, bool) {
	switch want := want.(type) {
	case presence:
		return "something", is != nil && is != any(absent)
	case absence:
		return "nothing", is == any(absent)
	case change:
		value := want(was)
		return value, value != any(absent) && reflect.DeepEqual(value, is)
	case sameAs:
		value := withoutLastSeen(at(s.results[""], string(want)))
		return value, reflect.DeepEqual(value, withoutLastSeen(is))
	case still:
		return s.matches(want.value, was, is)
	}
	value := s.expectedValue(want)
	return value, reflect.DeepEqual(value, is)
}

// withoutLastSeen removes lastSeenAt from a document, because the creator's changes with every call.
func withoutLastSeen(value any) any {
	switch value := value.(type) {
	case []any:
		list := make([]any, len(value))
		for n, one := range value {
			list[n] = withoutLastSeen(one)
		}
		return list
	case map[string]any:
		object := map[string]any{}
		for name, one := range value {
			if name != "lastSeenAt" {
				object[name] = withoutLastSeen(one)
			}
		}
		return object
	}
	return value
}

// expectedValue returns an expected value as it would be decoded, with its references filled in.
func (s *effectFixture) expectedValue(value any) any {
	text, err := json.Marshal(value)
	must.OK(s.t, err)
	return document(s.t, []byte(s.fill(string(text))))
}

func document(t testing.TB, text []byte) any {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		t.Fatalf("%v: %.200s", err, text)
	}
	return value
}

// inside inspects the platform and returns the state as text.
func (s *effectFixture) inside(e *effect) (is string) {
	s.t.Helper()
	if e.inside == nil {
		return ""
	}
	id := func(reference string) int64 { return int64(count(s.t, s.fill(reference))) }
	err := s.platform.World.Do(s.login, func(c *world.Creator) error {
		is = fmt.Sprint(e.inside(c, id))
		return nil
	})
	must.OK(s.t, err)
	return is
}

// do takes a step, waits for its events and returns its result.
func (s *effectFixture) do(one step) any {
	s.t.Helper()
	args := s.fill(one.args)
	s.skipEvents()
	switch {
	case one.do[0] == '!':
		return s.trigger(one.do[1:], args)
	case one.do == "put":
		return s.put(args)
	case one.do == "session":
		s.other = s.fixture.session(s.login)
		return map[string]any{"id": at(s.readBy(s.other, "settings.listSessions", "{}"), "items[isCurrent=true].id")}
	}
	a, err := s.call(s.session, one.do, args)
	if err != nil {
		s.t.Fatalf("%s %s: %s", one.do, args, describe(err))
	}
	if one.wait == nil {
		one.wait = drivertest.Method(s.t, s.catalog, one.do).Emits
	}
	for _, kind := range one.wait {
		s.event(kind, nil)
	}
	return document(s.t, a.Result)
}

// trigger makes the sandbox generate an event and returns the event's data.
func (s *effectFixture) trigger(kind, args string) any {
	s.t.Helper()
	body := map[string]any{}
	if args != "" {
		body = document(s.t, []byte(args)).(map[string]any)
	}
	frame := s.catalog.FrameFor(kind)
	if kind == catalog.Unknown {
		frame = "system.experiment"
	}
	body["login"], body["what"] = s.login, frame
	s.skipEvents()
	s.control("POST", "happen", body)
	return s.event(kind, nil)
}

// skipEvents makes event ignore all events up to now.
func (s *effectFixture) skipEvents() {
	s.t.Helper()
	err := s.platform.World.Do(s.login, func(c *world.Creator) error {
		s.from = c.LastFrame()
		return nil
	})
	must.OK(s.t, err)
}

// event waits for an event that meets the expectations and returns its data.
func (s *effectFixture) event(kind string, wants []any) any {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 2*time.Minute)
	defer cancel()
	for n := 0; ; n++ {
		for n >= len(s.events) {
			e, err := s.socket.Next(ctx)
			if err != nil {
				s.t.Fatalf("waiting for %s like %v: %v; received: %s", kind, wants, err, s.describeEvents())
			}
			s.events = append(s.events, e)
		}
		if id, err := strconv.ParseInt(s.events[n].UpstreamID, 10, 64); err != nil || id <= s.from || s.events[n].Kind != kind {
			continue
		}
		data := document(s.t, s.events[n].Data)
		fits := true
		for pair := range slices.Chunk(wants, 2) {
			_, ok := s.matches(pair[1], nil, at(data, s.fill(pair[0].(string))))
			fits = fits && ok
		}
		if fits {
			return data
		}
	}
}

// describeEvents lists the received events for messages.
func (s *effectFixture) describeEvents() string {
	var list []string
	for _, e := range s.events {
		list = append(list, fmt.Sprintf("%s %.200s", e.Kind, e.Data))
	}
	return strings.Join(list, "\n")
}

// put uploads a part to the URL that the platform returns for it: the picture, or size bytes.
func (s *effectFixture) put(args string) any {
	s.t.Helper()
	in := document(s.t, []byte(args)).(map[string]any)
	data := picture
	if size, ok := in["size"].(json.Number); ok {
		data = bytes.Repeat([]byte{'x'}, count(s.t, size.String()))
		delete(in, "size")
	}
	text, err := json.Marshal(in)
	must.OK(s.t, err)
	target := s.read("uploads.getPartUrl", string(text))
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPut, fmt.Sprint(at(target, "url")), bytes.NewReader(data))
	must.OK(s.t, err)
	headers, _ := at(target, "headers").(map[string]any)
	for name, value := range headers {
		req.Header.Set(name, fmt.Sprint(value))
	}
	resp, err := http.DefaultClient.Do(req)
	must.OK(s.t, err)
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		s.t.Fatalf("PUT of a part: %d", resp.StatusCode)
	}
	return map[string]any{"etag": strings.Trim(resp.Header.Get("ETag"), `"`)}
}

func (s *effectFixture) read(name, args string) any {
	s.t.Helper()
	return s.readBy(s.session, name, args)
}

// readBy calls a read. It reads all pages unless the arguments have a limit. A refusal becomes a document with its
// kind.
func (s *effectFixture) readBy(session driver.Session, name, args string) any {
	s.t.Helper()
	m := drivertest.Method(s.t, s.catalog, name)
	if m.Access != catalog.Read {
		s.t.Fatalf("%s is not a read", name)
	}
	if m.Paginated && !strings.Contains(args, `"limit"`) {
		if items := s.pages(name, args, 100, nil); items != nil {
			return map[string]any{"items": items}
		}
		return map[string]any{"refused": string(catalog.RefusedNotFound)}
	}
	a, err := s.call(session, name, args)
	if refused, ok := errors.AsType[*driver.Refused](err); ok {
		return map[string]any{"refused": string(refused.Kind)}
	}
	if err != nil {
		s.t.Fatalf("%s %s: %v", name, args, err)
	}
	return document(s.t, a.Result)
}

// pages reads all pages of a list. It calls between before every page but the first, with the items so far. The
// result is nil, not empty, if the owner of the list is not found.
func (s *effectFixture) pages(name, args string, limit int, between func(came []any)) []any {
	s.t.Helper()
	items := []any{}
	in := document(s.t, []byte(args)).(map[string]any)
	in["limit"] = limit
	for range 1000 {
		text, err := json.Marshal(in)
		must.OK(s.t, err)
		a, err := s.call(s.session, name, string(text))
		if refused, ok := errors.AsType[*driver.Refused](err); ok && len(items) == 0 && refused.Kind == catalog.RefusedNotFound {
			return nil
		}
		if err != nil {
			s.t.Fatalf("%s %s: %s", name, text, describe(err))
		}
		page := document(s.t, a.Result)
		list := at(page, "items").([]any)
		items = append(items, list...)
		if at(page, "hasMore") == false {
			return items
		}
		if len(list) != limit || at(page, "nextCursor") == nil {
			s.t.Fatalf("%s: a page of %d items has hasMore and the cursor %v", name, len(list), at(page, "nextCursor"))
		}
		in["cursor"] = at(page, "nextCursor")
		if between != nil {
			between(items)
		}
	}
	s.t.Fatalf("%s does not end", name)
	return nil
}

var reference = regexp.MustCompile(`\$(me\b|origin\b|[a-z]+:\d+|\d*(?:\.\w+)+)`)

// fill replaces the references in a text.
func (s *effectFixture) fill(text string) string {
	s.t.Helper()
	return reference.ReplaceAllStringFunc(text, func(found string) string {
		name, number, isID := strings.Cut(found[1:], ":")
		switch {
		case name == "ago" || name == "day":
			return s.platform.World.Now().AddDate(0, 0, -count(s.t, number)).Format(map[string]string{"ago": time.RFC3339, "day": time.DateOnly}[name])
		case isID:
			kind, known := kinds[name]
			if !known {
				s.t.Fatalf("unknown reference %s", found)
			}
			return strconv.FormatInt(row.SeedID(int64(count(s.t, s.session.Owner(s.catalog))), kind, count(s.t, number)), 10)
		case name == "me":
			return s.session.Owner(s.catalog)
		case name == "origin":
			return s.platform.URL
		}
		from, place, _ := strings.Cut(name, ".")
		value := at(s.results[from], place)
		if value == nil || value == any(absent) {
			s.t.Fatalf("the reference %s has no value", found)
		}
		return fmt.Sprint(value)
	})
}

func count(t testing.TB, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	must.OK(t, err)
	return n
}

var places = regexp.MustCompile(`([^.\[\]]+)|\[([^=\]]+)=([^\]]*)\]`)

// wholeBalance is the place of both parts of a balance. Seeded payments become available as time passes, so only their
// sum does not change between two reads.
const wholeBalance = "availableCents+pendingCents"

// at returns the value at a place of a document: names and indexes separated by dots, # for the number of items, and
// [id=3] for the item with that id. Places joined by + are numbers to add.
func at(value any, place string) any {
	if one, other, both := strings.Cut(place, "+"); both {
		return plus(integer(at(value, other)))(at(value, one))
	}
	for _, part := range places.FindAllStringSubmatch(place, -1) {
		list, isList := value.([]any)
		object, _ := value.(map[string]any)
		switch n, err := strconv.Atoi(part[1]); {
		case part[2] != "":
			i := slices.IndexFunc(list, func(one any) bool { return fmt.Sprint(at(one, part[2])) == part[3] })
			if i < 0 {
				return absent
			}
			value = list[i]
		case part[1] == "#" && isList:
			value = json.Number(strconv.Itoa(len(list)))
		case err == nil && n < len(list):
			value = list[n]
		default:
			inner, ok := object[part[1]]
			if !ok {
				return absent
			}
			value = inner
		}
	}
	return value
}
