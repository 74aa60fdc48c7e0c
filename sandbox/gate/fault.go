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

// Kinds of faults.
const (
	Latency    = "latency"     // value: milliseconds before each response
	RateLimit  = "rate_limit"  // value: seconds of Retry-After
	Error      = "error"       // value: HTTP status
	Hang       = "hang"        // the response never arrives
	Garbage    = "garbage"     // value: 0 broken JSON, 1 HTML, 2 endless, 3 deeply nested, 4 a compression bomb
	DropSocket = "drop_socket" // sockets are closed
	Duplicate  = "duplicate"   // frames are sent twice
	Reorder    = "reorder"     // frames are sent in pairs, the later one first
	Rotate     = "rotate"      // value: the session gets a new token every n requests
	Challenge  = "challenge"   // a sign-in asks for an SMS code, whatever the persona
)

// Kinds returns the kinds of faults.
func Kinds() []string {
	return []string{Latency, RateLimit, Error, Hang, Garbage, DropSocket, Duplicate, Reorder, Rotate, Challenge}
}

// Fault makes requests or frames of one login, or of all, fail.
type Fault struct {
	ID    string    `json:"id"`
	Scope string    `json:"scope"`
	Kind  string    `json:"kind"`
	Value int       `json:"value"`
	Count int       `json:"count,omitempty"` // remaining hits; 0: unlimited
	Until time.Time `json:"until,omitzero"`  // by the machine's clock
	Hits  int       `json:"hits"`
}

// Faults holds the active faults. It is safe for concurrent use.
type Faults struct {
	Now func() time.Time

	mu   sync.Mutex
	list []*Fault
}

// Add activates a fault. If lasting is 0, the fault stays until it is cleared or used up.
func (f *Faults) Add(fault Fault, lasting time.Duration) (Fault, error) {
	if !slices.Contains(Kinds(), fault.Kind) {
		return Fault{}, fmt.Errorf("unknown kind %q: must be one of %v", fault.Kind, Kinds())
	}
	if fault.Scope == "" {
		return Fault{}, fmt.Errorf(`scope is missing: must be "all" or a login`)
	}
	if fault.Kind == Error && fault.Value == 0 {
		fault.Value = http.StatusInternalServerError
	}
	if fault.Kind == Error && (fault.Value < 400 || fault.Value > 599) {
		return Fault{}, fmt.Errorf("value of an error must be an HTTP status from 400 to 599")
	}
	if fault.Kind == RateLimit && fault.Value == 0 {
		fault.Value = 5
	}
	if fault.Value < 0 || fault.Count < 0 || lasting < 0 {
		return Fault{}, fmt.Errorf("value, count and for_sec must not be negative")
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

// Clear removes the fault with the given id, or all faults if id is empty, and returns how many it removed.
func (f *Faults) Clear(id string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := len(f.list)
	f.list = slices.DeleteFunc(f.list, func(one *Fault) bool { return id == "" || one.ID == id })
	return before - len(f.list)
}

// ClearOf removes the faults of one login and returns how many it removed.
func (f *Faults) ClearOf(login string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := len(f.list)
	f.list = slices.DeleteFunc(f.list, func(one *Fault) bool { return one.Scope == login })
	return before - len(f.list)
}

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

// Take returns the active fault of this kind for a login, if there is one, and counts a hit.
func (f *Faults) Take(login, kind string) (Fault, bool) { return f.take(login, kind, false) }

// TakeLasting is like Take, but ignores faults with a count. It is for requests that come at unpredictable times.
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
