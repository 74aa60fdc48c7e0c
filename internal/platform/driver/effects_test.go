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
	"github.com/stagedoor/stagedoor/internal/platform/driver/upstreamtest"
	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

// effects are the writes of the catalog with what must be seen afterwards. A key is a method, or a method, a slash and what is
// special about the row.
type effects map[string]effect

// effect is one write. Texts hold references: $fan:3 is the id of the third seeded fan (see kinds), $me the creator's, $origin where
// the platform is, $ago:30 the time and $day:30 the day thirty days ago; $.id is a field of what the write answered, $1.id one of
// what the first of the steps before it answered.
type effect struct {
	first []step
	args  string
	wait  []string // for these events before anything is read; nil: for those that the method declares
	see   []sight
	// unseen says why no read can show it; inside then looks into the platform, and must find what want says, which was not so before.
	unseen string
	inside func(c *world.Creator, id func(string) int64) any
	want   any
	also   func(t *testing.T, s *stage)
}

// step is a call; "!kind" orders an event of the world outside and answers with its data, "put" sends a part of an upload, and
// "session" signs in once more.
type step struct {
	do, args string
	wait     []string
}

// none is for what makes no event now, although its method declares one.
var none = []string{}

// sight is a read, and pairs of a place in its answer and what must be there. It must not have been there before.
type sight struct {
	read, args string
	wants      []any
}

func sees(read, args string, wants ...any) sight { return sight{read, args, wants} }

// gone: what could be read cannot be found any more.
func gone(read, args string) sight { return sees(read, args, "refused", "not_found") }

// answers looks at what the write itself answered, tells at the event that came.
func answers(wants ...any) sight            { return sight{"", "", wants} }
func tells(kind string, wants ...any) sight { return sight{"!" + kind, "", wants} }

// What can be wanted besides a value: that there is nothing or something, a change of what was there, that it stays as it was, or is what was answered.
type (
	absence  struct{}
	presence struct{}
	change   func(before any) any
	still    struct{ value any }
	same     string // what the write answered, or the event carried, at this place
)

var (
	absent absence
	some   presence
	// theAnswer is all that the write answered.
	theAnswer = same("")
)

// plus is a number that went up, or down.
func plus(n int64) change {
	return func(before any) any {
		number, _ := before.(json.Number)
		was, err := number.Int64()
		if err != nil {
			return absent
		}
		return json.Number(strconv.FormatInt(was+n, 10))
	}
}

// later is a time that moved.
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

// kinds are what seeded things are called in references.
var kinds = map[string]row.Kind{
	"fan": row.KindPerson, "list": row.KindList, "message": row.KindMessage, "mass": row.KindMass, "post": row.KindPost,
	"comment": row.KindComment, "label": row.KindLabel, "story": row.KindStory, "highlight": row.KindHighlight, "stream": row.KindStream,
	"media": row.KindMedia, "folder": row.KindFolder, "draft": row.KindDraft, "tracking": row.KindTrackingLink, "trial": row.KindTrialLink,
	"promotion": row.KindPromotion, "bundle": row.KindBundle, "social": row.KindSocialLink, "form": row.KindForm, "option": row.KindPollOption,
	"payout": row.KindPayout, "tx": row.KindTx, "notice": row.KindNotice,
}

// stage is one creator, to whom one row happens.
type stage struct {
	*rig
	login   string
	session driver.Session
	socket  *driver.Socket
	other   driver.Session  // of the step "session"
	results map[string]any  // of the steps by number, and of the write
	events  []catalog.Event // that came by the socket
	from    int64           // events up to this one are of earlier steps
}

func (r *rig) stage() *stage {
	s := &stage{rig: r, login: r.login("ok"), results: map[string]any{}}
	s.session = r.session(s.login)
	s.socket = r.listen(s.session)
	return s
}

func TestEveryWriteIsSeenByAReadAfterwards(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	all := effects{}
	for _, part := range []effects{peopleEffects, listEffects, talkEffects, massEffects, postEffects, publishEffects, queueEffects, libraryEffects, moneyEffects, deskEffects} {
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
		if upstreamtest.Method(t, r.catalog, method).Access != catalog.Write {
			t.Errorf("%s is no write of the catalog", name)
		}
		if reads := slices.ContainsFunc(one.see, func(s sight) bool { return s.read != "" && s.read[0] != '!' }); reads == (one.unseen != "") {
			t.Errorf("%s: a row has a read that shows it, or says why there is none", name)
		}
		delete(missing, method)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r.in(t).stage().show(t, method, &one)
		})
	}
	if len(missing) > 0 {
		t.Errorf("no row says what %v do", slices.Sorted(maps.Keys(missing)))
	}
}

// show runs a row.
func (s *stage) show(t *testing.T, act string, e *effect) {
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
		s.look(&one, before[n])
	}
	if want := fmt.Sprint(s.plain(e.want)); e.inside != nil && (was == want || s.inside(e) != want) {
		t.Errorf("the platform had %s and has %s, want %s", was, s.inside(e), want)
	}
	if e.also != nil {
		e.also(t, s)
	}
}

// look compares what a sight shows with what it must show.
func (s *stage) look(one *sight, before any) {
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
		was, is := timeless(at(before, place)), timeless(at(shown, place))
		if want, ok := s.fits(pair[1], was, is); !ok {
			s.t.Errorf("%s: %s is %v, want %v (before: %v)", one.read, place, is, want, was)
		} else if _, stays := pair[1].(still); before != nil && !stays && reflect.DeepEqual(was, is) {
			s.t.Errorf("%s: %s was %v before, too: the row proves nothing", one.read, place, was)
		}
	}
}

// fits says whether a value is as wanted.
func (s *stage) fits(want, was, is any) (any, bool) {
	switch want := want.(type) {
	case presence:
		return "something", is != nil && is != any(absent)
	case absence:
		return "nothing", is == any(absent)
	case change:
		value := want(was)
		return value, value != any(absent) && reflect.DeepEqual(value, is)
	case same:
		value := timeless(at(s.results[""], string(want)))
		return value, reflect.DeepEqual(value, timeless(is))
	case still:
		return s.fits(want.value, was, is)
	}
	value := s.plain(want)
	return value, reflect.DeepEqual(value, is)
}

// timeless is a document without when people were last seen: the creator always is, just now.
func timeless(value any) any {
	switch value := value.(type) {
	case []any:
		list := make([]any, len(value))
		for n, one := range value {
			list[n] = timeless(one)
		}
		return list
	case map[string]any:
		object := map[string]any{}
		for name, one := range value {
			if name != "lastSeenAt" {
				object[name] = timeless(one)
			}
		}
		return object
	}
	return value
}

// plain is a wanted value as it is in a document.
func (s *stage) plain(value any) any {
	text, err := json.Marshal(value)
	if err != nil {
		s.t.Fatal(err)
	}
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

// inside is what the platform itself has, as text.
func (s *stage) inside(e *effect) (is string) {
	s.t.Helper()
	if e.inside == nil {
		return ""
	}
	id := func(reference string) int64 { return int64(count(s.t, s.fill(reference))) }
	err := s.platform.World.Do(s.login, func(c *world.Creator) error {
		is = fmt.Sprint(e.inside(c, id))
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return is
}

// do takes a step and gives what it answered, once the events it makes have come.
func (s *stage) do(one step) any {
	s.t.Helper()
	args := s.fill(one.args)
	s.mark()
	switch {
	case one.do[0] == '!':
		return s.order(one.do[1:], args)
	case one.do == "put":
		return s.put(args)
	case one.do == "session":
		s.other = s.rig.session(s.login)
		return map[string]any{"id": at(s.readBy(s.other, "settings.listSessions", "{}"), "items[isCurrent=true].id")}
	}
	a, err := s.call(s.session, one.do, args)
	if err != nil {
		s.t.Fatalf("%s %s: %s", one.do, args, told(err))
	}
	if one.wait == nil {
		one.wait = upstreamtest.Method(s.t, s.catalog, one.do).Emits
	}
	for _, kind := range one.wait {
		s.event(kind, nil)
	}
	return document(s.t, a.Result)
}

// order makes something of the world outside happen, and gives the data of the event.
func (s *stage) order(kind, args string) any {
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
	s.mark()
	s.control("POST", "happen", body)
	return s.event(kind, nil)
}

// mark has the events that are there by now passed over.
func (s *stage) mark() {
	s.t.Helper()
	err := s.platform.World.Do(s.login, func(c *world.Creator) error {
		s.from = c.LastFrame()
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// event is the data of one that came with these wants, or comes within a while.
func (s *stage) event(kind string, wants []any) any {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 2*time.Minute)
	defer cancel()
	for n := 0; ; n++ {
		for n >= len(s.events) {
			e, err := s.socket.Next(ctx)
			if err != nil {
				s.t.Fatalf("waiting for %s like %v: %v; came: %s", kind, wants, err, s.came())
			}
			s.events = append(s.events, e)
		}
		if id, err := strconv.ParseInt(s.events[n].UpstreamID, 10, 64); err != nil || id <= s.from || s.events[n].Kind != kind {
			continue
		}
		data := document(s.t, s.events[n].Data)
		fits := true
		for pair := range slices.Chunk(wants, 2) {
			_, ok := s.fits(pair[1], nil, at(data, s.fill(pair[0].(string))))
			fits = fits && ok
		}
		if fits {
			return data
		}
	}
}

// came lists the events, for whom a test failed.
func (s *stage) came() string {
	var list []string
	for _, e := range s.events {
		list = append(list, fmt.Sprintf("%s %.200s", e.Kind, e.Data))
	}
	return strings.Join(list, "\n")
}

// put sends a part of an upload to the address that the platform gives for it: the picture, or as many bytes as asked for.
func (s *stage) put(args string) any {
	s.t.Helper()
	in := document(s.t, []byte(args)).(map[string]any)
	data := picture
	if size, ok := in["size"].(json.Number); ok {
		data = bytes.Repeat([]byte{'x'}, count(s.t, size.String()))
		delete(in, "size")
	}
	text, err := json.Marshal(in)
	if err != nil {
		s.t.Fatal(err)
	}
	target := s.read("uploads.getPartUrl", string(text))
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPut, fmt.Sprint(at(target, "url")), bytes.NewReader(data))
	if err != nil {
		s.t.Fatal(err)
	}
	headers, _ := at(target, "headers").(map[string]any)
	for name, value := range headers {
		req.Header.Set(name, fmt.Sprint(value))
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		s.t.Fatalf("PUT of a part: %d", resp.StatusCode)
	}
	return map[string]any{"etag": strings.Trim(resp.Header.Get("ETag"), `"`)}
}

func (s *stage) read(name, args string) any {
	s.t.Helper()
	return s.readBy(s.session, name, args)
}

// readBy reads: all pages, unless a limit is given. A refusal is a document that says of which kind.
func (s *stage) readBy(session driver.Session, name, args string) any {
	s.t.Helper()
	m := upstreamtest.Method(s.t, s.catalog, name)
	if m.Access != catalog.Read {
		s.t.Fatalf("%s is no read", name)
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

// pages reads a list to its end and calls between before every page but the first, with what came so far. It is nil, not empty, if
// whose list it is cannot be found.
func (s *stage) pages(name, args string, limit int, between func(came []any)) []any {
	s.t.Helper()
	items := []any{}
	in := document(s.t, []byte(args)).(map[string]any)
	in["limit"] = limit
	for range 1000 {
		text, err := json.Marshal(in)
		if err != nil {
			s.t.Fatal(err)
		}
		a, err := s.call(s.session, name, string(text))
		if refused, ok := errors.AsType[*driver.Refused](err); ok && len(items) == 0 && refused.Kind == catalog.RefusedNotFound {
			return nil
		}
		if err != nil {
			s.t.Fatalf("%s %s: %s", name, text, told(err))
		}
		page := document(s.t, a.Result)
		list := at(page, "items").([]any)
		items = append(items, list...)
		if at(page, "hasMore") == false {
			return items
		}
		if len(list) != limit || at(page, "nextCursor") == nil {
			s.t.Fatalf("%s: a page of %d items says that there are more, the cursor is %v", name, len(list), at(page, "nextCursor"))
		}
		in["cursor"] = at(page, "nextCursor")
		if between != nil {
			between(items)
		}
	}
	s.t.Fatalf("%s has no end", name)
	return nil
}

var reference = regexp.MustCompile(`\$(me\b|origin\b|[a-z]+:\d+|\d*(?:\.\w+)+)`)

// fill puts in what references stand for.
func (s *stage) fill(text string) string {
	s.t.Helper()
	return reference.ReplaceAllStringFunc(text, func(found string) string {
		name, number, isID := strings.Cut(found[1:], ":")
		switch {
		case name == "ago" || name == "day":
			return s.platform.World.Now().AddDate(0, 0, -count(s.t, number)).Format(map[string]string{"ago": time.RFC3339, "day": time.DateOnly}[name])
		case isID:
			kind, known := kinds[name]
			if !known {
				s.t.Fatalf("%s is no reference", found)
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
			s.t.Fatalf("%s stands for nothing", found)
		}
		return fmt.Sprint(value)
	})
}

func count(t testing.TB, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

var places = regexp.MustCompile(`([^.\[\]]+)|\[([^=\]]+)=([^\]]*)\]`)

// at is what is in a document at a place: names and numbers with dots between, # for how many, and [id=3] for the one of a list that
// has that id.
func at(value any, place string) any {
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
