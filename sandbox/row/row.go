// Package row has the things the platform remembers, as it stores them. They know nothing of HTTP; package view says how they
// look on the wire.
package row

import (
	"slices"
	"time"
)

// Kind tells what an id belongs to.
type Kind int64

// Kinds. They are part of every stored key and id, so numbers are never used again.
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
	made       = 50_000_000 // ids from here on were made by a write, those before by the seed
)

// SeedID is the id of the n-th seeded thing of a kind. It depends on nothing else, so that examples in the documentation stay
// true.
func SeedID(creator int64, kind Kind, n int) int64 {
	return creator*perCreator + int64(kind)*perKind + int64(n)
}

// MadeID is the id of the n-th thing of a kind that a write made.
func MadeID(creator int64, kind Kind, n int64) int64 {
	return creator*perCreator + int64(kind)*perKind + made + n
}

// Ordinal undoes SeedID. ok is false for another creator's, another kind's or a made id.
func Ordinal(creator int64, kind Kind, id int64) (n int, ok bool) {
	n64 := id - creator*perCreator - int64(kind)*perKind
	return int(n64), n64 >= 0 && n64 < made
}

// Owner is the creator whose thing has this id.
func Owner(id int64) int64 { return id / perCreator }

// Rec is what every row has.
type Rec struct {
	ID int64 `json:"id"`
}

// Key is the row's place in its table.
func (r *Rec) Key() int64 { return r.ID }

// Origin is all that a seed depends on.
type Origin struct {
	ID     int64     `json:"id"`
	Login  string    `json:"login"`
	Anchor time.Time `json:"anchor"` // the midnight before the platform first saw the login; seeded times are relative to it
}

// Creator is the account itself.
type Creator struct {
	Origin
	Persona    string         `json:"persona"`
	Born       int64          `json:"born"` // microseconds of the machine's clock; frames before it were of another life
	Username   string         `json:"username"`
	Name       string         `json:"name"`
	Bio        string         `json:"bio"`
	Location   string         `json:"location"`
	Website    string         `json:"website"`
	AvatarID   int64          `json:"avatar"`
	CoverID    int64          `json:"cover"`
	IsFan      bool           `json:"isFan"` // signed up, but no creator
	JoinedAt   time.Time      `json:"joinedAt"`
	Price      int64          `json:"price"` // of a month, in cents
	Fans       int            `json:"fans"`  // whose subscription runs
	Sequence   map[Kind]int64 `json:"seq,omitempty"`
	Logins     int            `json:"logins"` // successful ones
	Tries      int            `json:"tries"`  // all of them
	BannedAt   time.Time      `json:"bannedAt,omitzero"`
	ExpiresRun time.Time      `json:"expiresRun"`        // subscriptions that ended until then have been dealt with
	Planned    bool           `json:"planned,omitempty"` // what the seed has scheduled is noted to happen
	SignKey    string         `json:"signKey,omitempty"` // for addresses that prove themselves; made when first needed
}

// Person is anyone the creator can meet: fan, follower, or another creator.
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
	Sub        *Subscription `json:"sub,omitempty"`    // theirs to the creator
	Follow     *Subscription `json:"follow,omitempty"` // the creator's to them
}

// Discount is a lower price for one fan.
type Discount struct {
	Percent int       `json:"percent"`
	EndsAt  time.Time `json:"endsAt,omitzero"`
}

// Holds says whether there is one and it is not over.
func (d *Discount) Holds(now time.Time) bool {
	return d != nil && (d.EndsAt.IsZero() || d.EndsAt.After(now))
}

// Subscription is one person's to another, over all its periods.
type Subscription struct {
	Since      time.Time `json:"since"`
	Until      time.Time `json:"until"` // zero: without end (free)
	AutoRenew  bool      `json:"autoRenew,omitempty"`
	Price      int64     `json:"price"`
	SourceKind string    `json:"sourceKind"` // profile, tracking, trial, promotion
	SourceID   int64     `json:"sourceId,omitempty"`
	Periods    []Period  `json:"periods"`         // oldest first
	Ended      bool      `json:"ended,omitempty"` // its end has been dealt with
}

// Active says whether it runs.
func (s *Subscription) Active(now time.Time) bool {
	return s != nil && (s.Until.IsZero() || s.Until.After(now))
}

// Period is one paid or free stretch of a subscription.
type Period struct {
	From   time.Time `json:"from"`
	To     time.Time `json:"to"`
	Price  int64     `json:"price"`
	Kind   string    `json:"kind"` // paid, trial, bundle, free
	Months int       `json:"months"`
}

// Tx is money that came in. Every sum the platform shows is a sum of these.
type Tx struct {
	Rec
	At       time.Time `json:"at"`
	Type     string    `json:"type"`   // subscription, tip, message, post, stream, bundle, referral
	Status   string    `json:"status"` // pending, done, reversed
	Gross    int64     `json:"gross"`
	Person   int64     `json:"person,omitempty"`
	RefKind  Kind      `json:"refKind,omitempty"` // what was paid for, if not the subscription or the profile
	Ref      int64     `json:"ref,omitempty"`
	Text     string    `json:"text,omitempty"`
	Reversed time.Time `json:"reversed,omitzero"`
}

// Fee is the platform's share, a fifth.
func (t *Tx) Fee() int64 { return t.Gross - t.Net() }

// Net is what the creator gets.
func (t *Tx) Net() int64 { return t.Gross * 4 / 5 }

// Chat is one conversation; its id is the person's.
type Chat struct {
	Rec
	Unread    int       `json:"unread,omitempty"`
	Marked    bool      `json:"marked,omitempty"` // unread by the creator's own wish
	Muted     bool      `json:"muted,omitempty"`
	Pinned    bool      `json:"pinned,omitempty"`
	Hidden    bool      `json:"hidden,omitempty"`
	Priority  bool      `json:"priority,omitempty"`
	UpdatedAt time.Time `json:"updatedAt"`
	LastID    int64     `json:"lastId,omitempty"` // last message
	ReadUpTo  int64     `json:"readUpTo,omitempty"`
}

// Message is one in a chat.
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

// Mass is one message to many.
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
	Waiting   []byte    `json:"waiting,omitempty"` // recipients who have no chat yet, packed by package talk
	UnsendAt  time.Time `json:"unsendAt,omitzero"`
	UnsendIn  int       `json:"unsendIn,omitempty"` // seconds after it was sent
}

// List is a named set of people. A system list has no members of its own: a rule says who is in it.
type List struct {
	Rec
	Name    string    `json:"name"`
	System  string    `json:"system,omitempty"`  // fans, expired, following, recent, tagged, muted
	Members []int64   `json:"members,omitempty"` // in the order in which they were added; change them by Add and Remove
	Places  []int64   `json:"places,omitempty"`  // theirs, which stay when others go; none as long as nobody went: 1, 2, 3 …
	Pins    []int64   `json:"pins,omitempty"`
	Pinned  bool      `json:"pinned,omitempty"`
	At      time.Time `json:"at"`
}

// Place is where the n-th member is in the order of adding. It never changes, so a page can begin behind it.
func (l *List) Place(n int) int64 {
	if len(l.Places) == 0 {
		return int64(n + 1)
	}
	return l.Places[n]
}

// Add puts someone on the list who is not on it.
func (l *List) Add(person int64) {
	if n := len(l.Places); n > 0 {
		l.Places = append(l.Places, l.Places[n-1]+1)
	}
	l.Members = append(l.Members, person)
}

// Remove takes people off the list, who are then not pinned to it either, and counts them.
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
