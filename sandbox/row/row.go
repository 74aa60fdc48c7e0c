// Package row defines the records that the platform stores. They are independent of HTTP; package view converts them
// for responses and frames.
package row

import (
	"slices"
	"time"
)

// Kind is the kind of a record. It is part of the record's id.
type Kind int64

// Kinds of records. They are part of every stored key and id, so a number must never be reused.
const (
	KindPerson        Kind = 0
	KindList          Kind = 1
	KindChat          Kind = 2
	KindMessage       Kind = 3
	KindMass          Kind = 4
	KindPost          Kind = 5
	KindComment       Kind = 6
	KindLabel         Kind = 7
	KindStory         Kind = 8
	KindHighlight     Kind = 9
	KindStream        Kind = 10
	KindStreamComment Kind = 11
	KindMedia         Kind = 12
	KindFolder        Kind = 13
	KindUpload        Kind = 14
	KindDraft         Kind = 15
	KindTrackingLink  Kind = 16
	KindTrialLink     Kind = 17
	KindPromotion     Kind = 18
	KindBundle        Kind = 19
	KindTx            Kind = 20
	KindPayout        Kind = 21
	KindNotice        Kind = 22
	KindSocialLink    Kind = 23
	KindForm          Kind = 24
	KindSettings      Kind = 25
	KindChargeback    Kind = 26
	KindReferral      Kind = 27
	KindGif           Kind = 28
	KindPollOption    Kind = 29
	KindSession       Kind = 30
)

const (
	perCreator = 10_000_000_000
	perKind    = 100_000_000
	made       = 50_000_000 // lower ids are seeded, ids from here on come from writes
)

// SeedID returns the id of the n-th seeded record of a kind. It depends on nothing else, so that ids in the
// documentation stay valid.
func SeedID(creator int64, kind Kind, n int) int64 {
	return creator*perCreator + int64(kind)*perKind + int64(n)
}

// MadeID returns the id of the n-th record of a kind that was created by a write.
func MadeID(creator int64, kind Kind, n int64) int64 {
	return creator*perCreator + int64(kind)*perKind + made + n
}

// Ordinal is the inverse of SeedID. ok is false if the id is of another creator or kind, or was created by a write.
func Ordinal(creator int64, kind Kind, id int64) (n int, ok bool) {
	n64 := id - creator*perCreator - int64(kind)*perKind
	return int(n64), n64 >= 0 && n64 < made
}

// Owner returns the id of the creator who owns the record with this id.
func Owner(id int64) int64 { return id / perCreator }

// Rec is embedded in every record.
type Rec struct {
	ID int64 `json:"id"`
}

// Key returns the record's key in its table.
func (r *Rec) Key() int64 { return r.ID }

// Origin holds everything that a creator's seed depends on.
type Origin struct {
	ID     int64     `json:"id"`
	Login  string    `json:"login"`
	Anchor time.Time `json:"anchor"` // midnight before the login was first used; seeded times are relative to it
}

// Creator is the profile of a creator's account.
type Creator struct {
	Origin
	Persona    string         `json:"persona"`
	Born       int64          `json:"born"` // microseconds of the machine's clock; earlier frames predate a reset
	Username   string         `json:"username"`
	Name       string         `json:"name"`
	Bio        string         `json:"bio"`
	Location   string         `json:"location"`
	Website    string         `json:"website"`
	AvatarID   int64          `json:"avatar"`
	CoverID    int64          `json:"cover"`
	IsFan      bool           `json:"isFan"` // signed up, but not a creator
	JoinedAt   time.Time      `json:"joinedAt"`
	Price      int64          `json:"price"` // of a month, in cents
	Fans       int            `json:"fans"`  // with an active subscription
	Sequence   map[Kind]int64 `json:"seq,omitempty"`
	Logins     int            `json:"logins"` // successful sign-ins
	Tries      int            `json:"tries"`  // all sign-ins of the persona flaky
	BannedAt   time.Time      `json:"bannedAt,omitzero"`
	ExpiresRun time.Time      `json:"expiresRun"`        // subscriptions that ended before this time are settled
	Planned    bool           `json:"planned,omitempty"` // timers for what the seed has scheduled are set
	SignKey    string         `json:"signKey,omitempty"` // signs URLs; created on first use
}

// Person is another user of the platform: a fan, a stranger or another creator.
type Person struct {
	Rec
	Username   string        `json:"username"`
	Name       string        `json:"name"`
	Country    string        `json:"country"`
	IsCreator  bool          `json:"isCreator,omitempty"`
	Verified   bool          `json:"verified,omitempty"`
	LastSeen   time.Time     `json:"lastSeen"`
	Online     bool          `json:"online,omitempty"`
	Blocked    bool          `json:"blocked,omitempty"`
	Restricted bool          `json:"restricted,omitempty"`
	Reported   []string      `json:"reported,omitempty"`
	CustomName string        `json:"customName,omitempty"`
	Note       string        `json:"note,omitempty"`
	NoteAt     time.Time     `json:"noteAt,omitzero"`
	Discount   *Discount     `json:"discount,omitempty"`
	Sub        *Subscription `json:"sub,omitempty"`    // to the creator
	Follow     *Subscription `json:"follow,omitempty"` // of the creator to this person
}

// Discount is a lower price for one fan.
type Discount struct {
	Percent int       `json:"percent"`
	EndsAt  time.Time `json:"endsAt,omitzero"`
}

// Holds reports whether d is not nil and has not expired.
func (d *Discount) Holds(now time.Time) bool {
	return d != nil && (d.EndsAt.IsZero() || d.EndsAt.After(now))
}

// Subscription is a person's subscription to another, with all its periods.
type Subscription struct {
	Since      time.Time `json:"since"`
	Until      time.Time `json:"until"` // zero: no end (free)
	AutoRenew  bool      `json:"autoRenew,omitempty"`
	Price      int64     `json:"price"`
	SourceKind string    `json:"sourceKind"` // profile, tracking, trial, promotion
	SourceID   int64     `json:"sourceId,omitempty"`
	Periods    []Period  `json:"periods"`         // oldest first
	Ended      bool      `json:"ended,omitempty"` // its end is settled
}

// Active reports whether the subscription exists and has not ended.
func (s *Subscription) Active(now time.Time) bool {
	return s != nil && (s.Until.IsZero() || s.Until.After(now))
}

// Period is one paid or free period of a subscription.
type Period struct {
	From   time.Time `json:"from"`
	To     time.Time `json:"to"`
	Price  int64     `json:"price"`
	Kind   string    `json:"kind"` // paid, trial, bundle, free
	Months int       `json:"months"`
}

// Tx is an incoming payment. All totals that the platform shows are sums of these.
type Tx struct {
	Rec
	At       time.Time `json:"at"`
	Type     string    `json:"type"`   // subscription, tip, message, post, stream, bundle, referral
	Status   string    `json:"status"` // pending, done, reversed
	Gross    int64     `json:"gross"`
	Person   int64     `json:"person,omitempty"`
	RefKind  Kind      `json:"refKind,omitempty"` // the paid object, unless it is the subscription or the profile
	Ref      int64     `json:"ref,omitempty"`
	Text     string    `json:"text,omitempty"`
	Reversed time.Time `json:"reversed,omitzero"`
}

// Fee returns the platform's share, a fifth.
func (t *Tx) Fee() int64 { return t.Gross - t.Net() }

// Net returns the creator's share.
func (t *Tx) Net() int64 { return t.Gross * 4 / 5 }

// Chat is a conversation with a person. It has the same id as the person.
type Chat struct {
	Rec
	Unread    int       `json:"unread,omitempty"`
	Marked    bool      `json:"marked,omitempty"` // marked as unread by the creator
	Muted     bool      `json:"muted,omitempty"`
	Pinned    bool      `json:"pinned,omitempty"`
	Hidden    bool      `json:"hidden,omitempty"`
	Priority  bool      `json:"priority,omitempty"`
	UpdatedAt time.Time `json:"updatedAt"`
	LastID    int64     `json:"lastId,omitempty"` // last message
	ReadUpTo  int64     `json:"readUpTo,omitempty"`
}

// Message is a message in a chat.
type Message struct {
	Rec
	Chat       int64     `json:"chat"`
	Mine       bool      `json:"mine,omitempty"` // sent by the creator
	Text       string    `json:"text,omitempty"`
	Media      []int64   `json:"media,omitempty"`
	Previews   []int64   `json:"previews,omitempty"`
	Price      int64     `json:"price,omitempty"`
	TextLocked bool      `json:"textLocked,omitempty"`
	Opened     bool      `json:"opened,omitempty"` // paid for
	Tip        int64     `json:"tip,omitempty"`
	Liked      bool      `json:"liked,omitempty"` // by the creator
	FanLiked   bool      `json:"fanLiked,omitempty"`
	Pinned     bool      `json:"pinned,omitempty"`
	ReplyTo    int64     `json:"replyTo,omitempty"`
	Mass       int64     `json:"mass,omitempty"`
	Gif        int64     `json:"gif,omitempty"`
	Forms      []int64   `json:"forms,omitempty"`
	At         time.Time `json:"at"`
	EditedAt   time.Time `json:"editedAt,omitzero"`
}

// Mass is a mass message.
type Mass struct {
	Rec
	State     string    `json:"state"` // scheduled, sending, sent, canceled
	Unsent    bool      `json:"unsent,omitempty"`
	Text      string    `json:"text,omitempty"`
	Media     []int64   `json:"media,omitempty"`
	Previews  []int64   `json:"previews,omitempty"`
	Price     int64     `json:"price,omitempty"`
	Locked    bool      `json:"locked,omitempty"`
	Include   []int64   `json:"include,omitempty"` // lists
	Exclude   []int64   `json:"exclude,omitempty"`
	People    []int64   `json:"people,omitempty"`
	Sent      int       `json:"sent,omitempty"`
	Viewed    int       `json:"viewed,omitempty"`
	At        time.Time `json:"at"`
	Scheduled time.Time `json:"scheduled,omitzero"`
	SentAt    time.Time `json:"sentAt,omitzero"`
	Waiting   []byte    `json:"waiting,omitempty"` // recipients without a chat, packed by package messages
	UnsendAt  time.Time `json:"unsendAt,omitzero"`
	UnsendIn  int       `json:"unsendIn,omitempty"` // seconds after sending
}

// List is a named set of people. A system list has no stored members: a rule decides who is on it.
type List struct {
	Rec
	Name    string    `json:"name"`
	System  string    `json:"system,omitempty"`  // fans, expired, following, recent, muted, restricted
	Members []int64   `json:"members,omitempty"` // in the order they were added; change with Add and Remove
	Places  []int64   `json:"places,omitempty"`  // ranks of the members, which never change; empty while 1, 2, 3 …
	Pins    []int64   `json:"pins,omitempty"`
	Pinned  bool      `json:"pinned,omitempty"`
	At      time.Time `json:"at"`
}

// Place returns the rank of the n-th member in the order of adding. It never changes, so a page can start after it.
func (l *List) Place(n int) int64 {
	if len(l.Places) == 0 {
		return int64(n + 1)
	}
	return l.Places[n]
}

// Add adds a person who is not on the list.
func (l *List) Add(person int64) {
	if n := len(l.Places); n > 0 {
		l.Places = append(l.Places, l.Places[n-1]+1)
	}
	l.Members = append(l.Members, person)
}

// Remove removes and unpins the people for whom gone is true, and returns how many it removed.
func (l *List) Remove(gone func(person int64) bool) int {
	var members, places []int64
	for n, person := range l.Members {
		if !gone(person) {
			members, places = append(members, person), append(places, l.Place(n))
		}
	}
	removed := len(l.Members) - len(members)
	l.Members, l.Places, l.Pins = members, places, slices.DeleteFunc(l.Pins, gone)
	return removed
}
