package gate

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Kinds of trouble that can be ordered.
const (
	Latency    = "latency"     // value: milliseconds before each answer
	RateLimit  = "rate_limit"  // value: seconds of Retry-After
	Error      = "error"       // value: HTTP status
	Hang       = "hang"        // the answer never comes
	Garbage    = "garbage"     // value: 0 broken JSON, 1 HTML, 2 endless, 3 deeply nested, 4 a bomb of zeros
	DropSocket = "drop_socket" // sockets are cut
	Duplicate  = "duplicate"   // frames come twice
	Reorder    = "reorder"     // frames come in pairs, the later one first
	Rotate     = "rotate"      // value: on every how many requests the session gets another token; 1 for each
	Challenge  = "challenge"   // signing in asks for a code by text, whatever the persona
)

// Kinds lists them.
func Kinds() []string {
	return []string{Latency, RateLimit, Error, Hang, Garbage, DropSocket, Duplicate, Reorder, Rotate, Challenge}
}

// Fault is trouble for one login, or for all.
type Fault struct {
	ID    string    `json:"id"`
	Scope string    `json:"scope"`
	Kind  string    `json:"kind"`
	Value int       `json:"value"`
	Count int       `json:"count,omitempty"` // how often it still strikes; 0: always
	Until time.Time `json:"until,omitzero"`  // by the machine's clock
	Hits  int       `json:"hits"`
}

// Faults are those in force.
type Faults struct {
	Now func() time.Time

	mu   sync.Mutex
	list []*Fault
}

// Add puts one in force. for 0 means until it is cleared or used up.
func (f *Faults) Add(fault Fault, lasting time.Duration) (Fault, error) {
	if !slices.Contains(Kinds(), fault.Kind) {
		return Fault{}, fmt.Errorf("unknown kind %q: it is one of %v", fault.Kind, Kinds())
	}
	if fault.Scope == "" {
		return Fault{}, fmt.Errorf(`scope is missing: it is "all" or a login`)
	}
	if fault.Kind == Error && fault.Value == 0 {
		fault.Value = http.StatusInternalServerError
	}
	if fault.Kind == Error && (fault.Value < 400 || fault.Value > 599) {
		return Fault{}, fmt.Errorf("value of an error is an HTTP status from 400 to 599")
	}
	if fault.Kind == RateLimit && fault.Value == 0 {
		fault.Value = 5
	}
	if fault.Value < 0 || fault.Count < 0 || lasting < 0 {
		return Fault{}, fmt.Errorf("value, count and for_sec are not negative")
	}
	fault.Scope = strings.ToLower(fault.Scope)
	fault.ID = "flt_" + rand.Text()[:12]
	f.mu.Lock()
	defer f.mu.Unlock()
	if lasting > 0 {
		fault.Until = f.Now().Add(lasting)
	}
	f.list = append(f.list, &fault)
	return fault, nil
}

// Clear ends one, or all if id is empty, and counts them.
func (f *Faults) Clear(id string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := len(f.list)
	f.list = slices.DeleteFunc(f.list, func(one *Fault) bool { return id == "" || one.ID == id })
	return before - len(f.list)
}

// ClearOf ends those of one login, and counts them.
func (f *Faults) ClearOf(login string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := len(f.list)
	f.list = slices.DeleteFunc(f.list, func(one *Fault) bool { return one.Scope == login })
	return before - len(f.list)
}

// List shows those in force.
func (f *Faults) List() []Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.expire()
	all := []Fault{}
	for _, one := range f.list {
		all = append(all, *one)
	}
	return all
}

// Take says whether a kind of trouble strikes a login now, which uses it up by one.
func (f *Faults) Take(login, kind string) (Fault, bool) { return f.take(login, kind, false) }

// TakeLasting is Take for what nobody expects: trouble that was ordered for a number of times waits for something else.
func (f *Faults) TakeLasting(login, kind string) (Fault, bool) { return f.take(login, kind, true) }

func (f *Faults) take(login, kind string, lasting bool) (Fault, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.list) == 0 {
		return Fault{}, false
	}
	f.expire()
	for i, one := range f.list {
		if one.Kind != kind || (one.Scope != "all" && one.Scope != login) || (lasting && one.Count > 0) {
			continue
		}
		one.Hits++
		hit := *one
		if one.Count > 0 {
			if one.Count--; one.Count == 0 {
				f.list = slices.Delete(f.list, i, i+1)
			}
		}
		return hit, true
	}
	return Fault{}, false
}

func (f *Faults) expire() {
	now := f.Now()
	f.list = slices.DeleteFunc(f.list, func(one *Fault) bool { return !one.Until.IsZero() && now.After(one.Until) })
}
