package row

import "time"

// Media is a picture, video, sound or GIF in the vault.
type Media struct {
	Rec
	Type    string    `json:"type"`  // photo, video, audio, gif
	State   string    `json:"state"` // processing, ready, failed
	Name    string    `json:"name,omitempty"`
	Width   int       `json:"width,omitempty"`
	Height  int       `json:"height,omitempty"`
	Seconds int       `json:"seconds,omitempty"`
	Bytes   int64     `json:"bytes,omitempty"`
	SHA256  string    `json:"sha256,omitempty"`
	MIME    string    `json:"mime,omitempty"`
	Upload  int64     `json:"upload,omitempty"` // the upload whose bytes are in the store; 0: generated from the id
	Folders []int64   `json:"folders,omitempty"`
	Forms   []int64   `json:"forms,omitempty"`
	Error   string    `json:"error,omitempty"`
	At      time.Time `json:"at"`
}

// Folder groups media of the vault.
type Folder struct {
	Rec
	Name   string    `json:"name"`
	System string    `json:"system,omitempty"` // messages, posts, stories, streams
	At     time.Time `json:"at"`
}

// Upload is a file that is being uploaded to the vault.
type Upload struct {
	Rec
	State    string       `json:"state"` // open, uploading, processing, ready, failed, aborted
	Name     string       `json:"name"`
	MIME     string       `json:"mime"`
	Bytes    int64        `json:"bytes"`
	SHA256   string       `json:"sha256,omitempty"`
	PartSize int64        `json:"partSize"`
	Parts    map[int]Part `json:"parts,omitempty"`  // by number, from 1
	Stored   bool         `json:"stored,omitempty"` // the parts are in the store; false for a seeded upload
	Media    int64        `json:"media,omitempty"`
	Source   string       `json:"source,omitempty"` // URL of a remote upload
	Error    string       `json:"error,omitempty"`
	At       time.Time    `json:"at"`
}

// Part is an uploaded part of a file.
type Part struct {
	Bytes int    `json:"bytes"`
	Tag   string `json:"tag"`
}

// Post is a post in the feed, or a draft of one.
type Post struct {
	Rec
	Author      int64        `json:"author"` // the creator or a followed creator
	Text        string       `json:"text,omitempty"`
	Media       []int64      `json:"media,omitempty"`
	Previews    []int64      `json:"previews,omitempty"`
	Price       int64        `json:"price,omitempty"`
	Pinned      bool         `json:"pinned,omitempty"`
	Archived    bool         `json:"archived,omitempty"`
	Private     bool         `json:"private,omitempty"`
	Labels      []int64      `json:"labels,omitempty"`
	Poll        *Poll        `json:"poll,omitempty"`
	Fundraising *Fundraising `json:"fundraising,omitempty"`
	Forms       []int64      `json:"forms,omitempty"`
	Mentions    []int64      `json:"mentions,omitempty"`
	Saved       bool         `json:"saved,omitempty"`  // a draft
	Likes       int          `json:"likes,omitempty"`  // by seeded fans, see seed.Liker
	Likers      []int64      `json:"likers,omitempty"` // those who liked it later
	Liked       bool         `json:"liked,omitempty"`  // by the creator
	Views       int          `json:"views,omitempty"`
	At          time.Time    `json:"at"`
	Scheduled   time.Time    `json:"scheduled,omitzero"`
	Published   time.Time    `json:"published,omitzero"`
	Days        int          `json:"days,omitempty"` // between publication and expiry
	Expires     time.Time    `json:"expires,omitzero"`
	Expired     bool         `json:"expired,omitempty"`
}

// Poll is a question with options.
type Poll struct {
	Question string       `json:"question,omitempty"`
	Options  []PollOption `json:"options"`
	Voted    int64        `json:"voted,omitempty"`
	EndsAt   time.Time    `json:"endsAt,omitzero"`
}

// PollOption is one option of a Poll.
type PollOption struct {
	ID    int64  `json:"id"`
	Text  string `json:"text"`
	Votes int    `json:"votes"`
}

// Fundraising is the goal for the tips of a post, in cents.
type Fundraising struct {
	Title  string `json:"title,omitempty"`
	Target int64  `json:"target"`
}

// Comment is a comment on a post or a stream.
type Comment struct {
	Rec
	Parent  int64     `json:"parent"`
	Author  int64     `json:"author"`
	Text    string    `json:"text"`
	ReplyTo int64     `json:"replyTo,omitempty"`
	Gif     int64     `json:"gif,omitempty"`
	Likes   int       `json:"likes,omitempty"`
	Liked   bool      `json:"liked,omitempty"`
	Pinned  bool      `json:"pinned,omitempty"`
	At      time.Time `json:"at"`
}

// Label groups posts.
type Label struct {
	Rec
	Name string    `json:"name"`
	At   time.Time `json:"at"`
}

// Story is shown for a day.
type Story struct {
	Rec
	Media    int64     `json:"media"`
	Text     string    `json:"text,omitempty"`
	LinkUser int64     `json:"linkUser,omitempty"`
	Question string    `json:"question,omitempty"`
	Forms    []int64   `json:"forms,omitempty"`
	Views    int       `json:"views,omitempty"` // by seeded fans, see seed.Viewing
	Seen     []Viewing `json:"seen,omitempty"`  // by others, later
	Watched  bool      `json:"watched,omitempty"`
	Live     bool      `json:"live,omitempty"` // published, even if it has expired since
	At       time.Time `json:"at"`
	Expires  time.Time `json:"expires"`
	Expired  bool      `json:"expired,omitempty"`
}

// Viewing records that a fan saw a story.
type Viewing struct {
	Person int64     `json:"person"`
	At     time.Time `json:"at"`
	Liked  bool      `json:"liked,omitempty"`
}

// Highlight is a permanent collection of stories.
type Highlight struct {
	Rec
	Title   string    `json:"title"`
	Stories []int64   `json:"stories"`
	Cover   int64     `json:"cover,omitempty"`
	At      time.Time `json:"at"`
}

// Stream is a live broadcast.
type Stream struct {
	Rec
	Title       string    `json:"title"`
	Description string    `json:"description,omitempty"`
	State       string    `json:"state"` // scheduled, live, ended, canceled
	Audience    string    `json:"audience"`
	Lists       []int64   `json:"lists,omitempty"`
	TipGoal     int64     `json:"tipGoal,omitempty"`
	Starts      time.Time `json:"starts"`
	Started     time.Time `json:"started,omitzero"`
	Ended       time.Time `json:"ended,omitzero"`
	Viewers     int       `json:"viewers,omitempty"`
	Peak        int       `json:"peak,omitempty"`
	Likes       int       `json:"likes,omitempty"`
	At          time.Time `json:"at"`
}

// Draft is a message saved for later. A post saved for later is a Post.
type Draft struct {
	Rec
	Text  string    `json:"text,omitempty"`
	Media []int64   `json:"media,omitempty"`
	Price int64     `json:"price,omitempty"`
	At    time.Time `json:"at"`
}

// Link is a tracking or a trial link.
type Link struct {
	Rec
	Name      string         `json:"name"`
	Code      string         `json:"code"`
	Tags      []string       `json:"tags,omitempty"`
	Clicks    map[string]int `json:"clicks,omitempty"` // by day
	Shared    []int64        `json:"shared,omitempty"`
	Days      int            `json:"days,omitempty"` // of a trial
	MaxClaims int            `json:"maxClaims,omitempty"`
	Expires   time.Time      `json:"expires,omitzero"`
	Ended     time.Time      `json:"ended,omitzero"`
	At        time.Time      `json:"at"`
}

// Promotion is a discount or trial for a limited time.
type Promotion struct {
	Rec
	Audience  string    `json:"audience"` // new, expired, both
	Type      string    `json:"type"`     // discount, trial
	Percent   int       `json:"percent,omitempty"`
	TrialDays int       `json:"trialDays,omitempty"`
	MaxClaims int       `json:"maxClaims,omitempty"`
	Message   string    `json:"message,omitempty"`
	Starts    time.Time `json:"starts"`
	Ends      time.Time `json:"ends,omitzero"`
	Stopped   bool      `json:"stopped,omitempty"`
}

// Bundle is a discount for several months at once.
type Bundle struct {
	Rec
	Months  int       `json:"months"`
	Percent int       `json:"percent"`
	At      time.Time `json:"at"`
}

// Payout is a payment from the platform to the creator.
type Payout struct {
	Rec
	Amount int64     `json:"amount"`
	Status string    `json:"status"` // pending, paid, failed, canceled
	Method string    `json:"method"`
	At     time.Time `json:"at"`
	PaidAt time.Time `json:"paidAt,omitzero"`
	Reason string    `json:"reason,omitempty"`
}

// Notice is a notification in the creator's inbox.
type Notice struct {
	Rec
	Type    string    `json:"type"` // tips, subscriptions, likes, comments, purchases, mentions, promotions, system
	Text    string    `json:"text"`
	Person  int64     `json:"person,omitempty"`
	RefKind Kind      `json:"refKind,omitempty"`
	Ref     int64     `json:"ref,omitempty"`
	Read    bool      `json:"read,omitempty"`
	At      time.Time `json:"at"`
}

// SocialLink is a link on the creator's profile.
type SocialLink struct {
	Rec
	Label string    `json:"label"`
	URL   string    `json:"url"`
	At    time.Time `json:"at"`
}

// Form is a release form: the consent of a person who appears in media.
type Form struct {
	Rec
	Name    string    `json:"name"`
	Email   string    `json:"email,omitempty"`
	Person  int64     `json:"person,omitempty"`
	Status  string    `json:"status"` // pending, approved, rejected, expired
	Code    string    `json:"code"`
	At      time.Time `json:"at"`
	Expires time.Time `json:"expires,omitzero"`
}

// Settings holds the creator's settings in a single row.
type Settings struct {
	Rec
	WelcomeOn     bool                  `json:"welcomeOn,omitempty"`
	WelcomeText   string                `json:"welcomeText,omitempty"`
	WelcomeMedia  []int64               `json:"welcomeMedia,omitempty"`
	WelcomePrice  int64                 `json:"welcomePrice,omitempty"`
	BlockedStates []string              `json:"blockedCountries,omitempty"`
	Preferences   map[string]bool       `json:"preferences,omitempty"`
	PayoutEvery   string                `json:"payoutEvery"`
	PayoutNext    time.Time             `json:"payoutNext,omitzero"`  // next scheduled payout
	Automation    map[string]Automation `json:"automation,omitempty"` // by kind of draft
}

// Automation configures the automatic publishing of drafts.
type Automation struct {
	On    bool      `json:"on"`
	Hours int       `json:"hours,omitempty"`
	Zone  string    `json:"zone,omitempty"`
	Next  time.Time `json:"next,omitzero"`
}
